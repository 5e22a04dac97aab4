"""The active attack on k-anonymity: who owns k − 1 accounts sees whether a victim is the k-th (Götz et al., 3.1).

The attacker guesses what the victim searched and searches it from accounts of their own, just so many that the victim
would complete the crowd. Every trial makes the release twice, with and without the victim's whole history, and asks
whether the sign the attacker looks for is there. The log itself is not touched: accounts are added in a lazy union.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from math import exp, tanh
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from searchveil.errors import InputError
from searchveil.items import KEYWORD, QUERY
from searchveil.log import SearchLog
from searchveil.log.words import words_of_text
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.noise import Source
from searchveil.privacy.rounding import at_most
from searchveil.progress import Progress, silent
from searchveil.publish.k_anonymity import searches_in_sessions
from searchveil.publish.k_keyword import KKeyword
from searchveil.publish.k_query import KQuery
from searchveil.publish.k_session import KSession, session_keywords
from searchveil.publish.mechanism import Mechanism

PERSONAL_QUERY = "elspeth quillwhistle heron lane foreclosure"


@dataclass(frozen=True)
class Trial:
    """How often the attacker saw the sign in releases with and without the victim, against one mechanism."""

    method: str
    sign: str
    fake_accounts: int
    runs: int
    seen_with_victim: float
    seen_without_victim: float
    advantage_at_most: float

    @property
    def advantage(self) -> float:
        """1: the release tells for certain whether the victim searched the guess; 0: it tells nothing."""
        return self.seen_with_victim - self.seen_without_victim

    @property
    def success(self) -> float:
        """How often the attacker is right who says "searched it" iff the sign is there, at even odds before."""
        return (1 + self.advantage) / 2

    @property
    def success_at_most(self) -> float:
        return (1 + self.advantage_at_most) / 2

    def to_json(self) -> dict[str, Any]:
        derived = ("advantage", "success", "success_at_most")
        return asdict(self) | {name: getattr(self, name) for name in derived}

    def __str__(self) -> str:
        allowed = "nothing forbids it"
        if self.advantage_at_most < 1:
            allowed = f"its guarantee allows {at_most(100 * self.success_at_most, 3)}%"
        return (
            f"{self.method}, {self.fake_accounts} fake accounts: {self.sign} in {self.seen_with_victim:.0%} of "
            f"releases with the victim, {self.seen_without_victim:.0%} without (runs: {self.runs}). "
            f"The attacker is right {self.success:.0%} of the time; {allowed}."
        )


@dataclass(frozen=True)
class AttackResult:
    guess: str
    k: int
    trials: tuple[Trial, ...]

    def to_json(self) -> dict[str, Any]:
        return {"guess": self.guess, "k": self.k, "trials": [trial.to_json() for trial in self.trials]}

    def __str__(self) -> str:
        return "\n".join([f"Did the victim search '{self.guess}'?", *map(str, self.trials)])


def attack_k_anonymity(
    log: SearchLog,
    *,
    k: int,
    guess: str | None = None,
    runs: int = 20,
    source: Source | None = None,
    progress: Progress = silent,
) -> AttackResult:
    """Attack the three k-anonymity baselines and, for comparison, ZEALOUS; `runs` releases of it each way.

    The victim is a user of the log who searched `guess`; where nobody did, any user, and the guess is planted. What the
    baselines release is the same every time up to the ids, so one run of them says it all.
    """
    from searchveil.publish.zealous import Zealous

    if runs < 1:
        raise InputError(f"the attack needs at least 1 run, not {runs}")
    source = source or Source()
    target = Target.of(log, PERSONAL_QUERY if guess is None else guess)
    words = sorted(set(words_of_text(target.guess)))
    keyword, sharing_keyword = target.rarest(words)
    sharing_query, same_sessions = target.others_with_query(), target.others_with_session(words)
    zealous = Zealous(epsilon=1, delta=1e-6, item="query", per_user=5)
    threshold = zealous.plan(log).settings.selection.threshold

    def query_is_published(release: pa.Table) -> bool:
        return _rows(release, query=target.guess) > 0

    def keyword_is_exact(release: pa.Table) -> bool:
        return _rows(release, keyword=keyword, generalised=False) > 0

    def one_session_more(release: pa.Table) -> bool:
        return _rows(release, keywords=" ".join(words)) > k + same_sessions

    def trial(mechanism: Mechanism, fakes: int, sign: str, seen: Callable[[pa.Table], bool], runs: int = 1) -> Trial:
        progress(f"attacking {mechanism.method} with {fakes} fake accounts")

        def share(*, with_victim: bool) -> float:
            attacked = target.with_fakes(fakes, with_victim=with_victim)
            return sum(seen(mechanism.release(attacked, source=source).table) for _ in range(runs)) / runs

        return Trial(
            mechanism.method,
            sign,
            fakes,
            runs,
            seen_with_victim=share(with_victim=True),
            seen_without_victim=share(with_victim=False),
            advantage_at_most=advantage_allowed(mechanism.plan(log).guarantee),
        )

    published = "the query is published"
    completing = max(0, k - 1 - sharing_query)
    return AttackResult(
        target.guess,
        k,
        (
            trial(KQuery(k), completing, published, query_is_published),
            # A set that k sessions share is published as it is, once for each: after k fakes, one more is the victim's.
            trial(KSession(k), k, "the keyword set is published once more than others account for", one_session_more),
            trial(KKeyword(k), max(0, k - 1 - sharing_keyword), f"'{keyword}' is published in full", keyword_is_exact),
            trial(zealous, completing, published, query_is_published, runs),
            # The strongest form of the same attack: as many accounts as bring the guess right below the threshold.
            trial(zealous, max(0, threshold - 1 - sharing_query), published, query_is_published, runs),
        ),
    )


@dataclass(frozen=True)
class Target:
    """A log with its users renamed to text, a victim in it, and what the attacker guesses the victim searched."""

    log: SearchLog
    victim: str
    guess: str

    @classmethod
    def of(cls, log: SearchLog, typed: str) -> "Target":
        guess = log.normalization.apply_to_text(typed)
        if not guess.strip():
            raise InputError(f"the guess '{typed}' has no text in it; guess a query")
        columns = [column for column in ("user", "query", "time") if column in log.table.columns]
        # Renamed, so that no account of the log has the name of a fake one.
        table = log.table.select(*columns)
        named = replace(log, table=table.mutate(user=ibis.literal("account ") + table["user"].cast("string")))
        searched = QUERY.of(named)
        searched = searched.filter(searched["query"] == guess)
        victim = log.engine.value(searched["user"].min()) or log.engine.value(named.table["user"].min())
        if victim is None:
            raise InputError(f"{log.source} is empty: there is nobody to attack")
        return cls(named, victim, guess)

    @property
    def others(self) -> SearchLog:
        """The log without the victim's history."""
        return replace(self.log, table=self.log.table.filter(self.log.table["user"] != self.victim))

    def with_fakes(self, fakes: int, *, with_victim: bool) -> SearchLog:
        """The log to release, in which the fake accounts, and with the victim also the victim, searched the guess."""
        accounts = [f"fake account {number + 1}" for number in range(fakes)] + [self.victim] * with_victim
        people = self.log if with_victim else self.others
        if not accounts:
            return people
        return replace(people, table=people.table.union(self._searches(accounts)))

    def _searches(self, accounts: list[str]) -> ir.Table:
        """One search of the guess by each account, a day after the log's last row: in a session of its own."""
        columns = {"user": pa.array(accounts), "query": pa.array([self.guess] * len(accounts))}
        if "time" in self.log.table.columns:
            last = self.log.engine.value(self.log.table["time"].max())
            columns["time"] = pa.array([last + timedelta(days=1)] * len(accounts))
        return self.log.engine.load(pa.table(columns)).cast(self.log.table.schema())

    def others_with_query(self) -> int:
        """How many others searched the guess. An attacker who does not know tries each number of fake accounts."""
        searched = QUERY.of(self.others)
        return int(self.log.engine.value(searched.filter(searched["query"] == self.guess).count()))

    def rarest(self, words: list[str]) -> tuple[str, int]:
        """The word of the guess that the fewest others hold, and how many do."""
        held = KEYWORD.of(self.others)
        counts = held.filter(held["keyword"].isin(words)).group_by("keyword").agg(users=ibis._.count())
        holders = dict.fromkeys(words, 0) | {
            row["keyword"]: row["users"] for row in self.log.engine.fetch(counts).to_pylist()
        }
        return min(holders.items(), key=lambda holder: (holder[1], -len(holder[0])))

    def others_with_session(self, words: list[str]) -> int:
        """How many sessions of others hold exactly these keywords."""
        held = session_keywords(searches_in_sessions(self.others, key=""))
        sets = held.group_by("session").agg(size=held.count(), guessed=held["keyword"].isin(words).sum())
        alike = sets.filter((sets["size"] == len(words)) & (sets["guessed"] == len(words)))
        return int(self.log.engine.value(alike.count()))


def advantage_allowed(guarantee: Guarantee) -> float:
    """The greatest advantage of any attack that a guarantee for adding or removing a user leaves: 1 without one."""
    return min(1.0, tanh(guarantee.epsilon / 2) + 2 * guarantee.delta / (1 + exp(guarantee.epsilon)))


def _rows(release: pa.Table, **values: str | bool) -> int:
    """How many rows of a release have these values."""
    for column, value in values.items():
        release = release.filter(pc.field(column) == value)
    return release.num_rows
