"""Retained users: how many users of the log a release that samples from it still shows."""

from dataclasses import dataclass
from typing import ClassVar

from searchveil.lab.view import View


@dataclass(frozen=True)
class RetainedUsers:
    needs: ClassVar[tuple[str, ...]] = ("user",)

    def measure(self, original: View, release: View) -> dict[str, float]:
        retained, users = (int(view.engine.value(view.tables["user"].count())) for view in (release, original))
        return {"users": retained, "share": retained / users} if users else {"users": retained}
