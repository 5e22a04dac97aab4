"""Who knows a few queries of a person: can they find the person in the log, and in the release?

Before: the log with its users under pseudonyms. The attacker looks for the users who searched all the known queries.
After: where a release still has records (pseudonyms, sessions), the attacker takes the record that holds most of the
known queries and reads the rest of it. Where it has only counts there is no record to find; the attacker then names the
query that the release suggests most, and is compared with the same guess about somebody else.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import ibis
import pyarrow as pa

from searchveil.errors import InputError, setting
from searchveil.items import KEYWORD, QUERY
from searchveil.log import SearchLog
from searchveil.log.words import words_of_text
from searchveil.privacy.noise import Source
from searchveil.progress import Progress, silent
from searchveil.publish.release import Release

Terms = frozenset[str]  # queries, or words where the release has only words


@dataclass(frozen=True)
class Linkage:
    """How often the attacker finds the target, over all targets; ties are broken by lot, and their share is counted."""

    found: float
    alone: float  # found, with nobody else fitting as well
    chance: float  # of finding the target without knowing anything

    def __str__(self) -> str:
        return f"found {self.found:.1%} ({self.alone:.1%} beyond doubt; by chance {self.chance:.2%})"


@dataclass(frozen=True)
class Reidentification:
    method: str
    known: int
    targets: int
    before: Linkage
    after: Linkage | None  # None: the release has no records of persons or sessions
    guess_right: float
    guess_right_about_others: float
    planted: int
    planted_published: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"planted_published": list(self.planted_published)}

    def __str__(self) -> str:
        after = "there is no record of a person in it to find"
        if self.after is not None:
            after = f"a record of the target is {self.after}"
        lines = [
            f"An attacker who knows {self.known} queries of a person ({self.targets} targets):",
            f"in the log under pseudonyms: {self.before}",
            f"in the release by {self.method}: {after}",
            f"one more query of the target named from the release: right {self.guess_right:.1%} of the time, "
            f"{self.guess_right_about_others:.1%} about somebody else",
        ]
        if self.planted:
            lines.append(f"planted personal queries in the release: {len(self.planted_published)} of {self.planted}")
        return "\n".join(lines)


def attack_reidentification(
    log: SearchLog,
    release: str | Path | Release,
    *,
    known: int = 3,
    targets: int = 200,
    planted: pa.Table | None = None,
    source: Source | None = None,
    progress: Progress = silent,
) -> Reidentification:
    """Attack a release of this log, or its folder. `planted` has a column `query` of texts that must not have come out.

    Targets are users, chosen by lot, who have more queries than the attacker knows of them.
    """
    if known < 1 or targets < 1:
        raise InputError(f"the attack needs a known query and a target, not {min(known, targets)}")
    source = source or Source()
    release = Release.read(release)
    progress("choosing targets")
    histories = _targets(log, known, targets, source)
    facts = {user: _some_of(queries, known, source) for user, queries in histories.items()}
    progress("looking for them in the log")
    before = _linkage_in_log(log, facts)
    progress("looking for them in the release")
    published = ReleasedTexts.of([log.engine.fetch(table) for table in release.load(log.engine).values()])
    right, right_about_others = _guessing(published, facts, histories)
    planted_queries = [] if planted is None else planted["query"].to_pylist()
    texts = [log.normalization.apply_to_text(str(query)) for query in planted_queries]
    return Reidentification(
        release.plan.method,
        known,
        len(facts),
        before,
        _linkage(log, published, facts, histories) if published.records else None,
        right,
        right_about_others,
        len(texts),
        tuple(text for text in texts if published.shows(text)),
    )


@dataclass(frozen=True)
class ReleasedTexts:
    """What a release holds, as an attacker reads it."""

    records: Sequence[Terms]  # of a person or a session, under a pseudonym
    together: Sequence[Terms]  # texts that are published in one row of counts: pairs, sequences, transitions
    popular: Sequence[str]  # single texts, the most frequent first
    by_word: bool  # the release has words, not queries

    @classmethod
    def of(cls, tables: Sequence[pa.Table]) -> "ReleasedTexts":
        records: dict[str, set[str]] = {}
        together: list[tuple[float, Terms]] = []
        popular: dict[str, float] = {}
        by_word = False
        for table in tables:
            columns = set(table.column_names)
            by_word |= not columns.isdisjoint({"keyword", "keywords"})
            owner = next((c for c in ("user", "session") if c in columns and columns & {"query", "keywords"}), None)
            for row in table.to_pylist():
                terms = _terms(row)
                if owner is not None:
                    records.setdefault(f"{owner} {row[owner]}", set()).update(terms)
                elif len(terms) > 1:
                    together.append((float(row.get("count", 1)), frozenset(terms)))
                for term in terms:
                    popular[term] = max(popular.get(term, 0.0), float(row.get("count", 1)))
        return cls(
            [frozenset(terms) for terms in records.values()],
            [terms for _, terms in sorted(together, key=lambda row: (-row[0], sorted(row[1])))],
            sorted(popular, key=lambda term: (-popular[term], term)),
            by_word,
        )

    @cached_property
    def _single(self) -> Terms:
        return frozenset(self.popular)

    def read(self, queries: Terms) -> Terms:
        """What of a history could be in the release: the queries, or their words."""
        return frozenset(word for query in queries for word in words_of_text(query)) if self.by_word else queries

    @cached_property
    def _where(self) -> dict[str, list[int]]:
        """Which records hold a text."""
        where: dict[str, list[int]] = {}
        for number, record in enumerate(self.records):
            for term in record:
                where.setdefault(term, []).append(number)
        return where

    def best(self, facts: Terms) -> list[Terms]:
        """The records that hold most of what is known; none if no record holds any of it."""
        held = Counter(number for term in self.read(facts) for number in self._where.get(term, ()))
        most = max(held.values(), default=0)
        return [self.records[number] for number, n in held.items() if n == most]

    def guess(self, facts: Terms) -> Terms:
        """One more text about the target, named with equal chances out of these; nothing if nothing is suggested."""
        known = self.read(facts)
        for rows in (self.best(facts), self._beside(known)):
            news = [row - known for row in rows if row - known]
            if news:
                return min(news, key=len)
        return frozenset([term for term in self.popular if term not in known][:1])

    def _beside(self, known: Terms) -> list[Terms]:
        """The rows of counts that hold most of what is known, the most frequent first."""
        most = max((len(known & row) for row in self.together), default=0)
        return [row for row in self.together if len(known & row) == most][:1] if most else []

    def right(self, guess: Terms, history: Terms) -> float:
        return len(guess & self.read(history)) / len(guess) if guess else 0.0

    def shows(self, text: str) -> bool:
        """Whether a text is published: as a whole, or all of its words in one record or among the words."""
        if not self.by_word:
            return text in self._single
        words = frozenset(words_of_text(text))
        return any(words <= record for record in self.records) if self.records else words <= self._single


def _guessing(
    published: ReleasedTexts, facts: Mapping[Any, Terms], histories: Mapping[Any, Terms]
) -> tuple[float, float]:
    """How often a guess about one more query of a target is right: about the target, and about somebody else."""
    everyone = list(facts)
    guesses = [published.guess(facts[user]) for user in everyone]
    others = [
        _somebody_else(everyone[i + 1 :] + everyone[:i], facts, published, guess) for i, guess in enumerate(guesses)
    ]

    def right_about(people: Sequence[Any]) -> float:
        return fmean(published.right(guess, histories[user]) for guess, user in zip(guesses, people, strict=True))

    return right_about(everyone), right_about(others)


def _somebody_else(others: Sequence[Any], facts: Mapping[Any, Terms], published: ReleasedTexts, guess: Terms) -> Any:
    """Another target of whom the guess is as little known as of the one it was made about; else any other."""
    unknown = (user for user in others if guess.isdisjoint(published.read(facts[user])))
    return next(unknown, others[0] if others else next(iter(facts)))


def _linkage_in_log(log: SearchLog, facts: Mapping[Any, Terms]) -> Linkage:
    """How well the facts point to one user of the log itself, under pseudonyms."""
    fitting = _users_who_fit(log, facts)
    found, alone = ([1 / fitting[user] for user in facts], [fitting[user] == 1 for user in facts])
    return Linkage(fmean(found), fmean(alone), 1 / log.users)


def _linkage(
    log: SearchLog, published: ReleasedTexts, facts: Mapping[Any, Terms], histories: Mapping[Any, Terms]
) -> Linkage:
    """Whose a record is goes by its content: it is one of the users who searched all that is in it, by lot."""
    best = {user: published.best(known) for user, known in facts.items()}
    fits = {user: [r for r in best[user] if r <= published.read(histories[user])] for user in facts}
    owners = _users_who_hold(log, published, {record for records in fits.values() for record in records})
    found = [sum(1 / owners[r] for r in fits[user]) / max(1, len(best[user])) for user in facts]
    alone = [_one_owner(best[user], fits[user], owners) for user in facts]
    return Linkage(fmean(found), fmean(alone), 1 / log.users)


def _one_owner(best: Sequence[Terms], fits: Sequence[Terms], owners: Mapping[Terms, int]) -> bool:
    """Whether a single record fits best, is the target's, and can be nobody else's."""
    return len(set(best)) == 1 and bool(fits) and owners[best[0]] == 1


def _users_who_hold(log: SearchLog, published: ReleasedTexts, records: set[Terms]) -> dict[Terms, int]:
    """How many users of the log searched everything that is in a record."""
    item = KEYWORD if published.by_word else QUERY
    numbered = sorted(records, key=sorted)
    rows = [(number, len(record), term) for number, record in enumerate(numbered) for term in sorted(record)]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    types = {"record": pa.int64(), "size": pa.int64(), item.columns[0]: pa.string()}
    table = pa.table([pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)], names=list(types))
    both = log.engine.load(table).join(item.of(log), item.columns[0])
    shared = both.group_by("record", "size", "user").agg(held=both.count())
    whole = shared.filter(shared["held"] == shared["size"])
    counts = log.engine.fetch(whole.group_by("record").agg(users=whole.count())).to_pylist()
    return {numbered[row["record"]]: row["users"] for row in counts}


def _terms(row: Mapping[str, Any]) -> list[str]:
    """The searched texts of a row; a keyword that was cut short stands for many and names none."""
    if row.get("generalised"):
        return []
    if "keywords" in row:
        return str(row["keywords"]).split()
    if isinstance(row.get("session"), list):
        return list(map(str, row["session"]))
    return [str(row[column]) for column in ("query", "next", "keyword") if row.get(column) is not None]


def _targets(log: SearchLog, known: int, targets: int, source: Source) -> dict[Any, Terms]:
    """The different queries of users chosen by lot among those who have more than are known."""
    held = QUERY.of(log)
    sizes = held.group_by("user").agg(queries=held.count())
    eligible = sizes.filter(sizes["queries"] > known)
    lot = (ibis.literal(source.key()) + eligible["user"].cast("string")).hexdigest("sha256")
    chosen = log.engine.stage(eligible.mutate(lot=lot).order_by("lot").limit(targets).select("user"))
    histories: dict[Any, set[str]] = {}
    for row in log.engine.fetch(held.semi_join(chosen, "user").order_by("user", "query")).to_pylist():
        histories.setdefault(row["user"], set()).add(row["query"])
    if not histories:
        raise InputError(
            f"nobody in {log.source} has more than {known} different queries",
            parameter="known",
            value=known,
            instead="try " + setting("known", 1),
        )
    return {user: frozenset(queries) for user, queries in histories.items()}


def _some_of(queries: Terms, n: int, source: Source) -> Terms:
    """n queries by lot."""
    lots = dict(zip(sorted(queries), source.words(len(queries)).tolist(), strict=True))
    return frozenset(sorted(lots, key=lambda query: (lots[query], query))[:n])


def _users_who_fit(log: SearchLog, facts: Mapping[Any, Terms]) -> dict[Any, int]:
    """How many users searched all that is known of a target; the target is one of them."""
    rows = [(i, query) for i, queries in enumerate(facts.values()) for query in queries]
    table = pa.table({"target": [i for i, _ in rows], "query": [query for _, query in rows]})
    asked = log.engine.load(table)
    held = QUERY.of(log)
    both = asked.join(held, "query")
    shared = both.group_by("target", "user").agg(queries=both.count())
    fits = shared.filter(shared["queries"] == len(next(iter(facts.values()))))
    counts = log.engine.fetch(fits.group_by("target").agg(users=fits.count())).to_pylist()
    users = list(facts)
    return {users[row["target"]]: row["users"] for row in counts}
