"""What is a search log? Its schema, the readers that make one, normalising, sessions and the demo generator."""

from searchveil.log.normalize import AS_TYPED, Normalization
from searchveil.log.read import read_log
from searchveil.log.schema import Problem, SearchLog
from searchveil.log.sessions import submissions, with_sessions
from searchveil.log.summary import LogSummary, summarize

__all__ = [
    "AS_TYPED",
    "LogSummary",
    "Normalization",
    "Problem",
    "SearchLog",
    "read_log",
    "submissions",
    "summarize",
    "with_sessions",
]
