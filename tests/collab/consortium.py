"""A consortium on loopback: a coordinator and parties in threads, over real TLS."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from searchveil.collab import identity
from searchveil.collab.agreement import RunFile
from searchveil.collab.coordinator import Coordinator
from searchveil.collab.member import Joined, Member
from searchveil.collab.messages import RunEnded
from searchveil.collab.paper import member_of
from searchveil.collab.party import Noise
from searchveil.collab.simulate import run_text
from searchveil.engine import open_engine
from searchveil.log import SearchLog
from searchveil.ports import KeptPorts
from searchveil.privacy.noise import Integers, Source
from searchveil.privacy.noise_shares import NoiseShare, Padding

Searches = Mapping[str, Sequence[str]]  # queries by user

LIMIT = 280  # seconds after which a run hangs, on a machine however slow


@dataclass(frozen=True)
class NoNoise(Noise):
    """The hook that no command can reach: the joint histogram itself."""

    share: NoiseShare = field(default_factory=lambda: NoiseShare(1.0, 1))
    padding: Padding = field(default_factory=lambda: Padding(1.0, 0.1, 1))
    threshold: int = 1

    def shares(self, n: int, source: Source) -> Integers:
        return 0 * self.share.sample(n, source)


def search_log(searches: Searches) -> SearchLog:
    rows = [(user, query) for user, queries in searches.items() for query in queries]
    columns = {"user": [user for user, _ in rows], "query": [query.partition("→")[0] for _, query in rows]}
    if any("→" in query for _, query in rows):  # a click: the query and the url
        columns["url"] = [query.partition("→")[2] for _, query in rows]
    table = pa.table(columns)
    engine = open_engine("duckdb")
    return SearchLog(engine.load(table), engine)


@dataclass
class Consortium:
    """Folders and a run file for parties `a`, `b`, …; `run` lets them work and says how it ended for each."""

    folder: Path
    parties: int = 3
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [chr(ord("a") + i) for i in range(self.parties)]
        everybody = [*self.names, "coordinator"]
        self.folder.mkdir(exist_ok=True)
        self.identities = {name: identity.create(self.folder / name, name) for name in everybody}
        for one in self.identities.values():
            for other in self.identities.values():
                if one is not other:
                    one.pin(other.certificate_path)
        self.port = KeptPorts(1)  # as long as the consortium is there
        self.address = f"127.0.0.1:{self.port.numbers[0]}"
        paper = self.settings.get("mode") == "paper"
        usual = {"epsilon": 5.0, "delta": 1e-4, "deadline": 200, "silence": 20} | ({} if paper else {"per_user": 3})
        self.settings = usual | self.settings
        self.text = run_text(self.fingerprints(), self.address, self.settings)

    def fingerprints(self) -> dict[str, str]:
        return {name: one.certificate.fingerprint for name, one in self.identities.items()}

    def party(self, name: str, searches: Searches, text: str | None = None, **given: Any) -> Member:
        run = RunFile(self.text if text is None else text, "run.toml")
        return member_of(run)(search_log(searches), self.identities[name], run, **given)

    def coordinator(self, **given: Any) -> Coordinator:
        return Coordinator(self.identities["coordinator"], RunFile(self.text), **given)

    def run(
        self,
        logs: Mapping[str, Searches],
        *,
        coordinator: Coordinator | None = None,
        of_party: Callable[[str], dict[str, Any]] = lambda name: {},
        parties: Mapping[str, Member] | None = None,
    ) -> "Outcome":
        coordinator = coordinator or self.coordinator()
        joined: dict[str, Joined] = {}
        failed: dict[str, BaseException] = {}
        made = parties or {name: self.party(name, logs[name], **of_party(name)) for name in logs}

        def work(name: str) -> None:
            try:
                joined[name] = made[name].join(self.folder / f"out-{name}")
            except BaseException as problem:
                failed[name] = problem

        def serve() -> None:
            try:
                coordinator.serve()
            except RunEnded as problem:
                failed["coordinator"] = problem

        threads = [threading.Thread(target=serve, daemon=True)]
        threads += [threading.Thread(target=work, args=(name,), daemon=True) for name in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive(), (joined, failed)
        return Outcome(self, joined, failed)


@dataclass(frozen=True)
class Outcome:
    consortium: Consortium
    joined: Mapping[str, Joined]
    failed: Mapping[str, BaseException]

    @property
    def tables(self) -> dict[str, dict[str, int]]:
        """The published counts at each party."""
        return {
            name: {row["query"]: row["count"] for row in one.release.table.to_pylist()}
            for name, one in self.joined.items()
        }

    def assert_nothing_published(self) -> None:
        assert not self.joined
        assert not list(self.consortium.folder.glob("out-*"))


def counts(logs: Mapping[str, Searches]) -> dict[str, int]:
    """How many users have each query, in all logs together, by counting one by one."""
    found: dict[str, int] = {}
    for searches in logs.values():
        for queries in searches.values():
            for query in set(queries):
                found[query] = found.get(query, 0) + 1
    return found
