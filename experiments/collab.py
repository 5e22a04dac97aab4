"""Joint releases beside those of each party alone, in both modes, on the demo log and on MSNBC's page categories.

    python experiments/collab.py counts rows program cost size

Prints the tables of docs/experiments/collab.md. MSNBC's sequences are looked for in ../shared/data, or at --msnbc;
where they are not, their tables are left out. Figures of a private log, were it one: do not publish them.
"""

import argparse
import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import log as ln
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from searchveil.collab.simulate import Simulation
from searchveil.engine import Engine, open_engine
from searchveil.errors import InputError
from searchveil.lab.measures.compare import Top
from searchveil.lab.measures.kl import divergence
from searchveil.log import SearchLog
from searchveil.log.demo import write_demo
from searchveil.log.read import read_log
from searchveil.privacy.noise import Source
from searchveil.publish.individual import Individual
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.release import Release
from searchveil.publish.sampling import Sampling
from searchveil.publish.zealous import Zealous

MSNBC = Path("../shared/data/msnbc_sequences.parquet")
PARTIES = (2, 4, 8)
Counts = dict[tuple[str, ...], float]
Named = tuple[str, SearchLog]


def demo(engine: Engine, users: int) -> SearchLog:
    with tempfile.TemporaryDirectory() as folder:
        write_demo(Path(folder) / "demo.tsv", users=users, seed=1)
        return kept(read_log([str(Path(folder) / "demo.tsv")], engine=engine))


def msnbc(engine: Engine, path: Path, users: int) -> SearchLog:
    """Every visited category is a query with one result, of the users with the lowest numbers."""
    table = pq.read_table(path, columns=["user", "category"])
    table = table.filter(pc.less(table["user"], pa.scalar(users)))
    user, category = (table[name].cast(pa.string()) for name in ("user", "category"))
    columns = pa.Table.from_arrays([user, category, category], names=["user", "query", "url"])
    return SearchLog(engine.load(columns), engine, source="msnbc")


def kept(log: SearchLog) -> SearchLog:
    return replace(log, table=log.engine.stage(log.table))


# --- how good a table of counts is ------------------------------------------------------------------------------------


def true_counts(log: SearchLog, *columns: str) -> Counts:
    rows = log.table.filter(log.table["query"].notnull())
    if "url" in columns:
        rows = rows.filter(rows["url"].notnull())
    found = log.engine.fetch(rows.group_by(list(columns)).agg(count=rows["user"].nunique(), clicks=rows.count()))
    measured = "clicks" if "url" in columns else "count"
    keys = zip(*(found[name].to_pylist() for name in columns), strict=True)
    return dict(zip(keys, found[measured].to_pylist(), strict=True))


def published(tables: Sequence[pa.Table], *columns: str) -> Counts:
    """All of them put together: what the parties have if each releases alone."""
    found: Counts = {}
    for table in tables:
        for row in table.to_pylist():
            key = tuple(row[name] for name in columns)
            found[key] = found.get(key, 0) + (row["count"] or 0)
    return found


def figures(truth: Counts, found: Counts) -> str:
    """Items, recall in per cent, and the KL-divergence from the log in nats, an item that is missing as half of one."""
    items = sorted(truth)
    original = np.array([truth[item] for item in items], float)
    release = np.array([max(0.0, found.get(item, 0)) for item in items])
    apart = divergence(Top(original, release, release > 0, original.sum(), release.sum()))
    there = sum(item in found for item in items)
    return f"{there:,} | {100 * there / len(items):.3g} | {'–' if apart is None else f'{apart:.3f}'}"


def each_alone(simulation: Simulation, log: SearchLog, release: Callable[[SearchLog], pa.Table]) -> list[pa.Table]:
    """A party that cannot release anything adds nothing."""
    made = []
    for part in simulation.split(log).values():
        try:
            made.append(release(kept(part)))
        except InputError:
            continue
    return made


def released(mechanism: Mechanism[Any], log: SearchLog) -> pa.Table:
    return mechanism.release(log).table


# --- the tables -------------------------------------------------------------------------------------------------------


def joint_table(simulation: Simulation, log: SearchLog) -> tuple[pa.Table, float, float]:
    """The joint release by real processes, with the CPU seconds and megabytes of all of them."""
    before = cpu()
    with tempfile.TemporaryDirectory() as folder:
        ran = simulation.joint(log, Path(folder))
        return Release.read(ran.folder).table, cpu() - before, ran.bytes / 1e6


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def counts(logs: Sequence[Named]) -> None:
    """Private mode, method zealous."""
    settings = {"method": "zealous", "item": "query", "per_user": 3, "epsilon": 1.0, "delta": 1e-5, "collusion": 1}
    alone = Zealous(epsilon=1, delta=1e-5, per_user=3)
    header("log", "release", "items", "recall %", "KL", "CPU s", "MB")
    for name, log in logs:
        truth = true_counts(log, "query")
        row(name, "central", figures(truth, published([alone.release(log).table], "query")), "", "")
        for r in PARTIES:
            simulation = Simulation(r, settings)
            table, seconds, megabytes = joint_table(simulation, log)
            row(name, f"{r} parties, joint", figures(truth, published([table], "query")), f"{seconds:.1f}",
                f"{megabytes:.1f}")  # fmt: skip
            local = each_alone(simulation, log, partial(released, alone))
            row(name, f"{r} parties, each alone", figures(truth, published(local, "query")), "", "")


def rows(logs: Sequence[Named]) -> None:
    """Private mode, method sampling."""
    header("log", "b", "release", "pairs", "recall %", "KL")
    for name, log in logs:
        truth = true_counts(log, "query", "url")
        for delta in (0.1, 0.5):
            settings = {"method": "sampling", "item": "click", "per_user": 5, "epsilon": 3.0, "delta": delta}
            alone = Individual(delta, 3.0)
            limit = f"{ln(1 / (1 - delta)):.2f}"
            for r in PARTIES:
                simulation = Simulation(r, settings)
                table, *_ = joint_table(simulation, log)
                row(name, limit, f"{r} parties, joint", figures(truth, drawn([table])))
                local = each_alone(simulation, log, partial(released, alone))
                row(name, limit, f"{r} parties, each alone", figures(truth, drawn(local)))


def drawn(tables: Sequence[pa.Table]) -> Counts:
    return published(tables, "query", "url")


def program(logs: Sequence[Named]) -> None:
    """Paper mode: what P0 solves is the program of one owner of all logs, so that one makes the joint release here."""
    header("log", "b", "release", "draws", "pairs", "recall %", "KL")
    for name, log in logs:
        truth = true_counts(log, "query", "url")
        for b in (0.01, 0.03, 0.1, 0.3):
            joint = by_program(b).release(log, source=Source(bytes(32)))
            size = joint.plan.figures["output_size"]
            shown = f"{joint.plan.figures['total']:,}"
            row(name, f"{b:g}", "joint", shown, figures(truth, drawn([joint.table])))
            for r in PARTIES:
                simulation = Simulation(r, {"mode": "paper", "epsilon": 1, "delta": 0.5})  # which only splits
                local = each_alone(simulation, log, partial(of_program, b=b, size=size // r))
                total = sum(pc.sum(table["count"]).as_py() or 0 for table in local)
                row(name, f"{b:g}", f"{r} parties, each alone", f"{total:,}", figures(truth, drawn(local)))


def by_program(b: float, size: int | None = None) -> Sampling:
    return Sampling(0.9, b, objective="kl", sampler="multinomial", output_size=size, seconds=1.0)


def of_program(part: SearchLog, b: float, size: int) -> pa.Table:
    """A share of |O|, or half of what fits where that is more than fits."""
    try:
        return by_program(b, size).release(part, source=Source(bytes(32))).table
    except InputError:
        return by_program(b).release(part, source=Source(bytes(32))).table


def cost(logs: Sequence[Named], sizes: Sequence[int] = (50, 100, 200), parties: Sequence[int] = PARTIES) -> None:
    """Both modes against users and parties, as many as the paper's program bears; of the last log."""
    header("log", "mode", "users", "parties", "CPU s", "seconds", "MB", "transform, % of the time")
    for name, log in logs[-1:]:
        for users, r in [*((size, 2) for size in sizes), *((sizes[1], r) for r in parties[1:])]:
            some = with_first_users(log, users)
            for mode, settings in (
                ("paper", {"mode": "paper", "epsilon": 3.0, "delta": 0.5}),
                ("private", {"method": "sampling", "item": "click", "per_user": 5, "epsilon": 3.0, "delta": 0.5}),
            ):
                before = cpu()
                with tempfile.TemporaryDirectory() as folder:
                    ran = Simulation(r, settings).joint(kept(some), Path(folder))
                share = 100 * ran.phases.get("transform", 0) / sum(ran.phases.values())
                row(name, mode, f"{users:,}", f"{r}", f"{cpu() - before:.1f}", f"{ran.seconds:.1f}",
                    f"{ran.bytes / 1e6:.2f}", f"{share:.0f}")  # fmt: skip


def size(logs: Sequence[Named], parties: Sequence[int] = PARTIES) -> None:
    """Private mode, method zealous of clicks, against users and parties; of the last log."""
    settings = {"method": "zealous", "item": "click", "per_user": 5, "epsilon": 1.0, "delta": 1e-5, "collusion": 1}
    header("log", "users", "parties", "CPU s", "seconds", "MB")
    for name, log in logs[-1:]:
        everybody = int(log.engine.value(log.table["user"].nunique()))
        for users, r in [*((everybody // part, 2) for part in (100, 10)), *((everybody, r) for r in parties)]:
            some = log if users == everybody else kept(with_first_users(log, users))
            before = cpu()
            with tempfile.TemporaryDirectory() as folder:
                ran = Simulation(r, settings).joint(some, Path(folder))
            row(name, f"{users:,}", f"{r}", f"{cpu() - before:.1f}", f"{ran.seconds:.1f}", f"{ran.bytes / 1e6:.2f}")


def with_first_users(log: SearchLog, users: int) -> SearchLog:
    user = log.table["user"].cast("string")
    first = log.engine.fetch(log.table.select(user=user).distinct().order_by("user").limit(users))["user"].to_pylist()
    return replace(log, table=log.table.filter(log.table["user"].isin(first)))


def header(*names: str) -> None:
    print("\n| " + " | ".join(names) + " |\n|" + "---|" * len(names))


def row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


TABLES: dict[str, Callable[[Sequence[Named]], None]] = {
    "counts": counts,
    "rows": rows,
    "program": program,
    "cost": cost,
    "size": size,
}


def logs_of(given: Any, engine: Engine) -> Iterator[Named]:
    yield f"demo, {given.users:,} users", demo(engine, given.users)
    if given.msnbc.exists():
        yield f"MSNBC, {given.msnbc_users:,} users", msnbc(engine, given.msnbc, given.msnbc_users)
    else:
        print(f"{given.msnbc} is not there: the tables of MSNBC are left out. Say where it is with --msnbc.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=f"of {', '.join(TABLES)}; all unless told")
    parser.add_argument("--users", type=int, default=20_000, help="of the demo log")
    parser.add_argument("--msnbc-users", type=int, default=3_000, help="of MSNBC, which has 989,818")
    parser.add_argument("--msnbc", type=Path, default=MSNBC)
    given = parser.parse_args()
    engine = open_engine("duckdb")
    logs = list(logs_of(given, engine))
    for name in given.tables:
        print(f"\n## {name}: {str(TABLES[name].__doc__).splitlines()[0]}")
        TABLES[name](logs)
    engine.close()


if __name__ == "__main__":
    main()
