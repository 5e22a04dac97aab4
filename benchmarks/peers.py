"""Publish one log with searchveil and with its peers, at equal promises, and print one table.

    python benchmarks/peers.py                                   # 5,000,000 rows of 500,000 users
    python benchmarks/peers.py --rows 500000 --users 50000       # quicker
    python benchmarks/peers.py --skip tumult --extras            # leave out a peer; add the variants nobody needs

Each peer lives in an environment of its own (.venv-peer-NAME, set up at the first run), because their pins clash. Every
one reads the same Parquet file and publishes how many users asked each query at the same ε, δ and queries per user, for
users who come and go with all of their rows. Before it is measured, each one publishes a tiny log at ε = 10, where
noise hardly matters: the sum of its counts shows how many queries per user it really keeps.

Seconds are those of the work, from opening the file to the last published count: without starting the interpreter,
imports and, in the peers' favour, the start of Spark. Memory is the most that the process and its children held
together (what children share is counted for each).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(__file__).resolve().parent / "peers"
EPSILON, DELTA, PER_USER = 1.0, 1e-6, 5
LARGE_EPSILON, TINY_USERS, TINY_QUERIES = 10.0, 1_000, 20


@dataclass(frozen=True)
class Peer:
    """An environment and the script that runs in it."""

    name: str
    packages: tuple[str, ...] = ()

    @property
    def script(self) -> Path:
        return SCRIPTS / f"with_{self.name}.py"


@dataclass(frozen=True)
class Method:
    title: str
    peer: Peer
    variant: str = ""
    laplace: bool = True
    extra: bool = False


@dataclass(frozen=True)
class Result:
    seconds: float
    megabytes: float | None
    released: int
    total: float
    note: str


class Unavailable(Exception):  # noqa: N818 (an outcome that is shown in the table)
    """Why a row has no figures."""


OURS = Peer("searchveil")
OPENDP = Peer("opendp", ("opendp[polars]",))
PIPELINEDP = Peer("pipelinedp", ("pipeline-dp", "pyarrow"))
TUMULT = Peer("tumult", ("tmlt.analytics",))
METHODS = (
    Method("searchveil ZEALOUS", OURS),
    Method("OpenDP Polars, by hand", OPENDP, "by-hand"),
    Method("OpenDP Polars", OPENDP, "per-group"),
    Method("OpenDP Polars, num groups", OPENDP, "num-groups"),
    Method("PipelineDP", PIPELINEDP, "laplace"),
    Method("PipelineDP, Gaussian", PIPELINEDP, "gaussian", laplace=False, extra=True),
    Method("Tumult Analytics", TUMULT),
)


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="peers-", dir=options.work) as folder:
        scratch = Path(folder)
        log, tiny = scratch / "log.parquet", scratch / "tiny.parquet"
        say(f"writing a log of {options.rows:,} rows and {options.users:,} users")
        write_log(log, options.rows, options.users)
        write_tiny_log(tiny)
        results: dict[Method, Result | Unavailable] = {}
        kept: dict[Method, float] = {}
        for method in METHODS:
            if method.peer.name in options.skip or (method.extra and not options.extras):
                continue
            try:
                python = environment(method.peer)
                say(f"{method.title}: checking how many queries per user it keeps")
                check = run(method, python, tiny, LARGE_EPSILON, scratch, options.timeout)
                kept[method] = check.total / TINY_USERS
                say(f"{method.title}: publishing the log")
                results[method] = run(method, python, log, EPSILON, scratch, options.timeout)
            except Unavailable as reason:
                say(f"{method.title}: {reason}")
                results[method] = reason
        for line in report(options.rows, options.users, results, kept):
            print(line)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--users", type=int, default=500_000)
    parser.add_argument("--work", type=Path, help="folder for the log and what is spilled (default: a temporary one)")
    parser.add_argument(
        "--skip", action="append", default=[], choices=[peer.name for peer in (OPENDP, PIPELINEDP, TUMULT)]
    )
    parser.add_argument("--extras", action="store_true", help="also the variants that the targets do not look at")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds after which a peer is given up")
    options = parser.parse_args()
    if not 1 <= options.users <= options.rows:
        parser.error(f"--users {options.users} must lie between 1 and the number of rows, {options.rows}")
    if options.work is not None:
        options.work.mkdir(parents=True, exist_ok=True)
    return options


def say(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


# --- The log ----------------------------------------------------------------------------------------------------------

WORDS = [
    start + end for start in "bdfgklmnpr" for end in ("ab", "eck", "im", "ol", "un", "ar", "est", "ing", "or", "ud")
]


def write_log(path: Path, rows: int, users: int) -> None:
    """Every user once, the other rows heavy-tailed over users; the k-th query is asked in proportion to 1/k.

    The texts are lower-case ASCII already, so that normalising (which the peers do not do) changes no count.
    """
    random = np.random.default_rng(1)
    user = np.concatenate([np.arange(users), (users * random.random(rows - users) ** 2).astype(np.int64)])
    random.shuffle(user)
    rank = np.exp(random.random(rows) * np.log(rows)).astype(np.int64)
    drawn = pa.table({"user": pa.array(user), "rank": pa.array(rank)})
    # The rank with words for digits, so that different ranks are different texts: one to four words up to 100 million.
    base = len(WORDS)
    words = [f"if(rank >= {base**i}, getvariable('words')[1 + rank // {base**i} % {base}], null)" for i in range(4)]
    db = duckdb.connect()
    db.register("drawn", drawn)
    db.execute(f"set variable words = {WORDS!r}")
    named = f"select \"user\", concat_ws(' ', {', '.join(words)}) as query from drawn"
    db.execute(f"copy ({named}) to '{escaped(path)}' (format parquet)")
    db.close()


def write_tiny_log(path: Path) -> None:
    """Every user asks every query twice, so a user's part is exactly what the limit lets through."""
    duckdb.sql(
        f"copy (select u::bigint as \"user\", 'query ' || q as query from range({TINY_USERS}) users(u), "
        f"range({TINY_QUERIES}) queries(q), range(2)) to '{escaped(path)}' (format parquet)"
    )


def escaped(path: Path) -> str:
    return str(path).replace("'", "''")


# --- Environments and processes ---------------------------------------------------------------------------------------


def environment(peer: Peer) -> Path:
    """The Python of the peer's own environment, which is made if it is not there or was not finished."""
    if not peer.packages:
        return Path(sys.executable)
    folder = ROOT / f".venv-peer-{peer.name}"
    python, done = folder / "bin" / "python", folder / ".installed"
    wanted = " ".join(peer.packages)
    if done.exists() and done.read_text() == wanted:
        return python
    say(f"{peer.name}: installing {wanted} into {folder.name}")
    shutil.rmtree(folder, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", str(folder)], [str(python), "-m", "pip", "install", *peer.packages]):
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise Unavailable(f"cannot be installed here: {last_line(made.stderr or made.stdout)}")
    done.write_text(wanted)
    return python


def run(
    method: Method,
    python: Path,
    log: Path,
    epsilon: float,
    scratch: Path,
    timeout: float,
    *,
    delta: float = DELTA,
    per_user: int = PER_USER,
) -> Result:
    """A fresh process in a folder of its own, watched for memory until it ends."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        out, errors = Path(folder) / "outcome.json", Path(folder) / "errors.txt"
        arguments = ["--log", log, "--epsilon", epsilon, "--delta", delta, "--per-user", per_user]
        arguments += ["--variant", method.variant, "--out", out]
        command = [str(python), str(method.peer.script), *map(str, arguments)]
        with errors.open("w") as sink:
            # A session of its own, so that what it leaves behind (Spark's Java) can be ended with it.
            process = subprocess.Popen(command, cwd=folder, stdout=sink, stderr=sink, start_new_session=True)
            watch = MemoryWatch(process.pid)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"no answer within {timeout:g} s") from None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                watch.stop()
        if process.returncode != 0 or not out.exists():
            raise Unavailable(f"failed: {last_line(errors.read_text())}")
        return Result(**json.loads(out.read_text()), megabytes=watch.megabytes)


def last_line(text: str) -> str:
    """What a failing command said last; the full story is too long for a table."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("[notice]")]
    return lines[-1][:200] if lines else "it said nothing"


class MemoryWatch:
    """The most memory a process and its descendants hold together, looked at twenty times a second.

    Linux only. A peak between two looks is still caught for the largest process, whose own high-water mark counts.
    """

    def __init__(self, pid: int) -> None:
        self._peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(pid,), daemon=True)
        self._thread.start()

    def _look(self, pid: int) -> None:
        while not self._ended.wait(0.05):
            held = [(status.get("VmRSS", 0), status.get("VmHWM", 0)) for status in family(pid)]
            if held:
                self._peak = max(self._peak, sum(now for now, _ in held), max(most for _, most in held))

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def megabytes(self) -> float | None:
        return self._peak / 1024 if self._peak else None


def family(pid: int) -> Iterator[dict[str, int]]:
    """The numbers in /proc/PID/status, in kB where they are sizes, of a process and its descendants."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        children = [
            int(child)
            for task in os.listdir(f"/proc/{pid}/task")
            for child in read_words(f"/proc/{pid}/task/{task}/children")
        ]
    except OSError:  # it has ended, or this is not Linux
        return
    pairs = (line.split(":", 1) for line in lines)
    yield {name: int(value.split()[0]) for name, value in pairs if name in ("VmRSS", "VmHWM")}
    for child in children:
        yield from family(child)


def read_words(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except OSError:
        return []


# --- The table --------------------------------------------------------------------------------------------------------


def report(
    rows: int, users: int, results: dict[Method, Result | Unavailable], kept: dict[Method, float]
) -> Iterator[str]:
    ours = next((r for m, r in results.items() if m.peer is OURS and isinstance(r, Result)), None)
    yield f"{rows:,} rows, {users:,} users, ε={EPSILON:g}, δ={DELTA:g}, {PER_USER} queries per user, add/remove a user;"
    yield f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, {time.strftime('%Y-%m-%d')}"
    yield ""
    header = ("method", "seconds", "peak MB", "queries released", "seconds ÷ ours", "kept per user", "calibration")
    lines: list[Sequence[str]] = [header]
    for method, result in results.items():
        held = f"{kept[method]:.2f}" if method in kept else "–"
        if isinstance(result, Unavailable):
            lines.append((method.title, "–", "–", "–", "–", held, str(result)))
            continue
        memory = f"{result.megabytes:,.0f}" if result.megabytes is not None else "–"
        ratio = f"{result.seconds / ours.seconds:.1f}" if ours else "–"
        figures = (f"{result.seconds:.2f}", memory, f"{result.released:,}", ratio, held)
        lines.append((method.title, *figures, result.note))
    yield from aligned(lines)
    yield ""
    yield "seconds: reading the file, limiting, counting, noise, threshold; not the interpreter, imports, Spark's start"
    yield f"kept per user: seen on a tiny log at ε={LARGE_EPSILON:g}; it must be {PER_USER}"
    yield ""
    yield from targets(ours, results, kept)


def aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    right = range(1, len(widths) - 1)
    for number, line in enumerate(lines):
        cells = [text.rjust(widths[i]) if i in right else text.ljust(widths[i]) for i, text in enumerate(line)]
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 1) + (':' if i in right else '-') for i, width in enumerate(widths))}|"


def targets(
    ours: Result | None, results: dict[Method, Result | Unavailable], kept: dict[Method, float]
) -> Iterator[str]:
    """Only peers that keep as many queries per user as they were told are compared with."""
    fair = {m: r for m, r in results.items() if isinstance(r, Result) and round(kept[m], 1) == PER_USER}
    peers = {method: result for method, result in fair.items() if method.peer is not OURS}
    if ours is None or not peers:
        yield "targets: nothing to compare"
        return
    fastest = min(peers, key=lambda method: peers[method].seconds)
    ratio = peers[fastest].seconds / ours.seconds
    yield (
        f"target: at most a fifth of the fastest peer's seconds: {verdict(ratio >= 5)} "
        f"({fastest.title} takes {ratio:.1f} times ours)"
    )
    laplace = {method: result.released for method, result in peers.items() if method.laplace}
    if laplace:
        best = max(laplace, key=lambda method: laplace[method])
        yield (
            f"target: at least as many queries as the best Laplace peer: {verdict(ours.released >= laplace[best])} "
            f"({ours.released:,}; {best.title} {laplace[best]:,})"
        )


def verdict(met: bool) -> str:
    return "met" if met else "NOT met"


if __name__ == "__main__":
    main()
