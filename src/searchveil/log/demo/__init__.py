"""The demo log: realistic searches of invented people, to try everything on. See docs/demo-log.md."""

from searchveil.log.demo.personal import planted_personal_queries
from searchveil.log.demo.writer import DemoLog, write_demo

__all__ = ["DemoLog", "planted_personal_queries", "write_demo"]
