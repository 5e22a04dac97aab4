"""What the k-anonymity baselines share: the parameter k, the missing guarantee, and sessions under fresh ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import ibis
import ibis.expr.types as ir

from searchveil.items.item import normalize_query
from searchveil.log import SearchLog
from searchveil.log.sessions import number_sessions, submissions
from searchveil.privacy.guarantee import Guarantee, Notion
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import Declared
from searchveil.publish.plan import Counted, Plan, Settings

ACTIVE_ATTACK = (
    "Whoever owns all but one of the accounts in a crowd of k sees the last one; "
    "`searchveil attack k-anonymity` shows it on a log."
)
ID_LENGTH = 20  # hexadecimal digits: a hundred million sessions share an id with a chance of 4e-9


@dataclass(frozen=True, kw_only=True)
class KAnonymitySettings(Settings):
    k: int

    def to_json(self) -> dict[str, Any]:
        return {"k": self.k}


@dataclass(frozen=True, repr=False)
class KAnonymity(Mechanism[KAnonymitySettings]):
    """A baseline to compare with, not a protection: it counts accounts, and an attacker can own most of them.

    Why nothing is promised: docs/guarantees/k-anonymity.md.
    """

    notions: ClassVar[tuple[Notion, ...]] = ("none",)
    example: ClassVar[Mapping[str, Any]] = {"k": 5}
    item: ClassVar[str]
    counts: ClassVar[Counted]
    caveats: ClassVar[tuple[str, ...]]

    k: Annotated[
        int,
        Declared("Accounts that must share what is published.", symbol="k", least=2, hint="1 would publish everything"),
    ] = 5

    def planned(self, log: SearchLog | int | None) -> Plan[KAnonymitySettings]:
        guarantee = Guarantee.no_differential_privacy(
            proof="docs/guarantees/k-anonymity.md", caveats=(*self.caveats, ACTIVE_ATTACK)
        )
        return Plan(self.method, self.item, KAnonymitySettings(k=self.k), guarantee, counts=self.counts)


def searches_in_sessions(log: SearchLog, key: str) -> ir.Table:
    """The log's searches as (user, session, moment, query): queries in normal form, a fresh random id per session.

    An id is a hash of user and session under `key`: who does not hold the key cannot tell it from a random number, and
    ordering by it is a random permutation. A log without times has no sessions: every row is then a session of its own.
    """
    if "time" in log.table.columns:
        searches = number_sessions(submissions(log)).rename(moment="time")
    else:
        rows = normalize_query(log.table.select("user", "query"), log.normalization)
        place = ibis.row_number().over(ibis.window(group_by="user", order_by="query"))
        searches = rows.mutate(session=place, moment=place)
    number, user = searches["session"].cast("string"), searches["user"].cast("string")
    fresh_id = (ibis.literal(key) + number + ibis.literal(" ") + user).hexdigest("sha256")[:ID_LENGTH]
    return searches.filter(searches["query"] != "").mutate(session=fresh_id)
