"""What models learn from a synthetic log: suggestions and clicks of users whom nobody saw, beside other releases.

    python experiments/synthetic.py --users 30000 --epsilon 4

A demo log is split by users: four fifths are released at one (ε,δ) by each method, models are trained on the releases
and asked about searches of the others. Prints the tables of docs/experiments/synthetic.md. Figures of a private log,
were it one: do not publish them.
"""

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import searchveil as sv
from searchveil.errors import InputError
from searchveil.lab.applications import application_named
from searchveil.lab.measures.classifier import Classifier
from searchveil.lab.split import split
from searchveil.lab.testset import TestSet
from searchveil.lab.view import View, lacking
from searchveil.log import SearchLog
from searchveil.privacy.noise import Source
from searchveil.publish.mechanism import Mechanism

FIRST, LAST = "2024-03-01", "2024-05-31"
FIGURES = {
    "query-suggestion": ("R@5 over all", "answered"),
    "query-suggestion-clicks": ("R@5 over all", "answered"),
    "click-model": ("bits", "first result over all", "answered"),
    "ad-hoc-search": ("nDCG@10 over all", "answered"),
}


def mechanisms(epsilon: float, delta: float) -> Mapping[str, Mechanism]:
    return {
        "synthetic": sv.Synthetic(epsilon, delta, from_=FIRST, to=LAST),
        "ZEALOUS, clicks, m = 5": sv.Zealous(epsilon, delta, item="click", per_user=5),
        "ZEALOUS, clicks, m = 20": sv.Zealous(epsilon, delta, item="click", per_user=20),
        "ZEALOUS, pairs, m = 5": sv.Zealous(epsilon, delta, item="pair", per_user=5),
        "SafeLog, queries": sv.SafeLogClick(epsilon=epsilon, delta=delta, transitions=True),
        "SafeLog, sessions": sv.SafeLogSession(epsilon=epsilon, delta=delta, clicks_per_user=4),
        "sampling": sv.Sampling(epsilon=epsilon, delta=delta),
    }


def scores(view: View, original: View, test: TestSet) -> list[str]:
    cells = []
    for name, figures in FIGURES.items():
        application = application_named(name)()
        if lacking(application.needs, original, view):
            cells += ["–"] * len(figures)
            continue
        found = application.run(view, test)
        cells += [f"{found.get(figure, 0.0):.4g}" for figure in figures]
    return cells


def table(log: SearchLog, epsilon: float, delta: float) -> None:
    train, test_log = split(log, fraction=0.2, seed=1)
    train, test_log = (
        replace(part, table=log.engine.stage(part.table), source="the log") for part in (train, test_log)
    )
    original = View.of_log(train)
    test = TestSet.draw(test_log, original=original, seed=1)
    asked = f"{len(test.queries)} queries, {len(test.sessions)} sessions of {test_log.users} users"
    print(f"\nε = {epsilon:g}, δ = {delta:g}; {train.users} users released, asked about {asked}\n")
    header = ["release", *(f"{name}: {figure}" for name, figures in FIGURES.items() for figure in figures)]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    print("| " + " | ".join(["the log itself", *scores(original, original, test)]) + " |", flush=True)
    for name, mechanism in mechanisms(epsilon, delta).items():
        try:
            release = mechanism.release(train, source=Source(bytes(32)))
        except InputError as refused:
            print(f"| {name} | refused: {refused} |" + " |" * (len(header) - 2), flush=True)
            continue
        view = View.of_release(release, train.engine)
        print("| " + " | ".join([name, *scores(view, original, test)]) + " |", flush=True)
        if name == "synthetic":
            figures = Classifier().measure(original, view)
    print("\nclassifier test: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        sv.write_demo(path, users=asked.users, seed=asked.seed)
        log = sv.read_log(path)
        for epsilon in asked.epsilon:
            table(log, epsilon, asked.delta)
        log.engine.close()


if __name__ == "__main__":
    main()
