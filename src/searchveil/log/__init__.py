"""What is a search log? Its schema, the readers that make one, normalising, sessions and the demo generator."""

from searchveil.log.schema import Problem, SearchLog

__all__ = ["Problem", "SearchLog"]
