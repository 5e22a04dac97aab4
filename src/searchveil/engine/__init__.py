"""Where is it computed? Tables are ibis expressions; DuckDB is embedded, Spark serves clusters."""

from searchveil.engine.base import Engine
from searchveil.engine.connect import open_engine

__all__ = ["Engine", "open_engine"]
