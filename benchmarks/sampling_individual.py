"""Individual rates: how large and how true the sample is beside the programs' on the same pairs, and how long it takes.

    python benchmarks/sampling_individual.py [--users 20000] [--epsilon 1] [--seeds 20] [--shared]
    python benchmarks/sampling_individual.py --speed [--users 657426] [--repeats 3]

The first: pairs that weighted selection names on a demo log, or with --shared all pairs of two users (which is not
private), and b = ln 2 for all. Distances are from the log's shares of these pairs: of the expected counts ("bias"), and
of drawn ones, the mean over seeds. Lines "at the size of …" draw with a smaller b, so with a smaller δ, which is shown.
Fitted weights: by the true sums, which nobody may know, and by sums with noise for a part of the account.

The second: the whole release (open the file … folder written) beside DuckDB's plain count of users of every query.
Each is a process of its own; seconds and CPU seconds are the fewest of the repeats, taken in turns.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, expm1, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from measure import Run, alone, demo_log, report
from release import count_plainly
from scipy import sparse

import searchveil as sv
from searchveil.optimize.objectives import KL, Size
from searchveil.optimize.program import ClickCounts, Reals
from searchveil.optimize.solve import relax
from searchveil.privacy.gaussian import sigma_for
from searchveil.privacy.noise import Source
from searchveil.progress import silent
from searchveil.publish.click_counts import click_counts
from searchveil.publish.folder import write_folder
from searchveil.publish.individual import Individual, _clicks_on

HERE = Path(__file__)
B = log(2)
DELTA = 0.5
SPEED, MOST_MB = 3.0, 3000
ROUNDS = 3  # of fitting with noise
LONGEST = 3.0  # a user's clicks, as a vector over the pairs, are scaled to this length before they are summed


def clicks_on_named_pairs(users: int, epsilon: float) -> ClickCounts:
    """Who clicked which named pair how often."""
    searches = sv.read_log(str(demo_log(users)))
    engine, source = searches.engine, Source(bytes(32))
    vocabulary, _ = Individual(DELTA, epsilon)._vocabulary(searches, source, silent)
    clicks = engine.stage(_clicks_on(engine.number(vocabulary, "entry", ["query", "url"]), searches, "none"))
    held = engine.fetch(clicks.group_by("user", "entry").agg(count=clicks.count()))
    people, pairs = (np.unique(held[name].to_numpy(), return_inverse=True)[1] for name in ("user", "entry"))
    counts = held["count"].to_numpy()
    engine.close()
    return ClickCounts.of(people, pairs, counts)


def individual(counts: ClickCounts, weights: Reals) -> Reals:
    """The expected counts of the pairs, every user's draws being in proportion to weight times clicks."""
    weighed = counts.matrix.astype(np.float64) @ sparse.diags(weights)
    expected: Reals = np.asarray((B / weighed.sum(axis=1)) @ weighed).ravel()
    return expected


def fitted(counts: ClickCounts) -> Reals:
    """By the true sums: as near to the log as weights can bring it."""
    weights, shares = np.ones(counts.pairs), counts.totals / counts.size
    for _ in range(50):
        expected = individual(counts, weights)
        weights = weights * shares * expected.sum() / expected
    return weights


def fitted_with_noise(counts: ClickCounts, epsilon: float, part: float, chance: np.random.Generator) -> Reals:
    """Half of the part for the sums to come near to, half for those reached in each round."""
    sigma = sigma_for(epsilon, 0.7e-6)
    lengths = np.sqrt(np.asarray(counts.matrix.multiply(counts.matrix).sum(axis=1)).ravel())
    wanted = np.asarray(np.minimum(1, LONGEST / lengths) @ counts.matrix).ravel()
    wanted = np.maximum(1, wanted + chance.normal(0, LONGEST * sigma / sqrt(part / 2), counts.pairs))
    weights = np.ones(counts.pairs)
    for _ in range(ROUNDS):
        noise = chance.normal(0, B * sigma / sqrt(part / 2 / ROUNDS), counts.pairs)
        reached = np.maximum(1, individual(counts, weights) + noise)
        weights = weights * np.clip(wanted / wanted.sum() * reached.sum() / reached, 0.2, 5)
    return weights


@dataclass(frozen=True)
class Line:
    name: str
    expected: Reals
    delta: float = DELTA

    def at_the_size_of(self, other: "Line") -> "Line":
        factor = other.expected.sum() / self.expected.sum()
        name = f"  the same, at the size of {other.name}"
        return Line(name, self.expected * factor, -expm1(factor * log(1 - self.delta)))

    def told(self, shares: Reals, seeds: int) -> str:
        drawn = [np.random.default_rng(seed).poisson(self.expected) for seed in range(seeds)]
        bias, sample = l1(shares, self.expected), np.mean([l1(shares, counts) for counts in drawn])
        divergence = np.mean([kl(shares, counts) for counts in drawn])
        size = self.expected.sum()
        return f"{self.name:<48} {size:>9,.0f} {self.delta:>8.4f} {bias:>8.3f} {sample:>8.3f} {divergence:>8.4f}"


def l1(shares: Reals, counts: Any) -> float:
    return float(np.abs(shares - counts / max(1, counts.sum())).sum())


def kl(shares: Reals, counts: Any) -> float:
    """As the measure `kl` has it: a pair that is missing stands for half an occurrence."""
    some = np.maximum(counts, 0.5)
    return float(np.sum(shares * np.log(shares / (some / some.sum()))))


def lines(counts: ClickCounts, epsilon: float) -> Iterator[Line]:
    largest = relax(counts, "poisson", Size(), B)
    size = Line("poisson, size", np.asarray(largest.x, np.float64))
    near = relax(counts, "poisson", KL.of(counts), B, total=largest.objective / 2, largest=size.expected)
    close = Line("poisson, kl, half of that", np.asarray(near.x, np.float64))
    yield size
    yield Line("multinomial, size, relaxed", np.asarray(relax(counts, "multinomial", Size(), B).x, np.float64))
    yield close
    ours = Line("individual rates", individual(counts, np.ones(counts.pairs)))
    yield ours
    yield ours.at_the_size_of(size)
    yield ours.at_the_size_of(close)
    yield Line("individual, weights by true sums (not private)", individual(counts, fitted(counts)))
    for part in (0.1, 0.2):
        weights = fitted_with_noise(counts, epsilon, part, np.random.default_rng(1))
        yield Line(f"individual, weights by {part:.0%} of the account", individual(counts, weights))


def clicks_on_shared_pairs(users: int) -> ClickCounts:
    searches = sv.read_log(str(demo_log(users)))
    counts = click_counts(searches).counts
    searches.engine.close()
    return counts


def quality(users: int, epsilon: float, seeds: int, shared: bool) -> None:
    counts = clicks_on_shared_pairs(users) if shared else clicks_on_named_pairs(users, epsilon)
    chosen = "shared" if shared else f"named (ε = {epsilon:g})"
    shares = counts.totals / counts.size
    print(f"{counts.users:,} of {users:,} users hold one of {counts.pairs:,} {chosen} pairs, {counts.size:,} clicks")
    print(f"b = ln 2, limit m_V·b = {counts.users * B:,.0f}")
    print(f"{'':<48} {'size':>9} {'δ':>8} {'bias L1':>8} {'L1':>8} {'KL':>8}")
    for line in lines(counts, epsilon):
        print(line.told(shares, seeds), flush=True)
    rate = Individual(DELTA, epsilon).rate
    print(f"expected size / limit at δ = {DELTA}, of which the selection has 1e-6: {rate / B:.6f} (target ≥ 0.99)")
    print(f"P(a user appears) = {1 - exp(-rate):.6f}")


def release(path: str) -> dict[str, Any]:
    out = Path(tempfile.mkdtemp()) / "release"
    try:
        made = sv.Sampling(epsilon=1, delta=DELTA).release(sv.read_log(path))
        made.write(out)
    finally:
        shutil.rmtree(out.parent)
    return {"rows": made.table.num_rows, **made.plan.figures}


def speed(users: int, repeats: int) -> None:
    best: dict[tuple[int, str], Run] = {}
    sizes = (users // 10, users)
    for size in sizes:
        path = str(demo_log(size))
        for _ in range(repeats):
            for what in ("count", "sample"):
                run = alone(HERE, "--only", what, "--log", path)
                best[size, what] = run.least_of(best.get((size, what)))
    print(f"{'users':>9}  {'what':<8} {'seconds':>8} {'CPU s':>8} {'peak MB':>8}  result")
    for (size, what), run in best.items():
        print(f"{size:>9}  {what:<8} {run.seconds:>8.2f} {run.cpu_seconds:>8.2f} {run.peak_mb:>8.0f}  {run.result}")
    sample, count, small = best[users, "sample"], best[users, "count"], best[sizes[0], "sample"]
    print(f"sample / plain count  {sample.seconds / count.seconds:.2f} (target ≤ {SPEED:g})")
    print(f"    the same, CPU seconds  {sample.cpu_seconds / count.cpu_seconds:.2f}")
    print(f"peak memory  {sample.peak_mb:.0f} MB (target ≤ {MOST_MB})")
    print(f"time from a tenth to the whole × {sample.seconds / small.seconds:.1f} (target ≤ 11)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        _ = (sv.read_log, sv.Sampling, write_folder)  # loaded before the clock starts, as DuckDB is
        sv.open_engine().close()
        report(lambda: count_plainly(given.log) if given.only == "count" else release(given.log))
    elif given.speed:
        speed(given.users or 657_426, given.repeats)
    else:
        quality(given.users or 20_000, given.epsilon, given.seeds, given.shared)


if __name__ == "__main__":
    main()
