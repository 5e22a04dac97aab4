"""Where is it computed? Tables are ibis expressions; DuckDB is embedded, Spark serves clusters."""

from searchveil.engine.base import Engine, FirstRows
from searchveil.engine.connect import open_engine

__all__ = ["Engine", "FirstRows", "open_engine"]
