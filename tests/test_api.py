"""The public nouns, used the way the package's own documentation says."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keyed import keyed

import searchveil as sv

HEAVY = ("ibis", "duckdb", "pyarrow", "pyspark", "dp_accounting", "numpy", "mpmath", "pandas", "scipy")


@pytest.fixture
def log(tmp_path: Path) -> sv.SearchLog:
    """Two hundred users who share five queries, each with a query of their own."""
    rows = [f"{user},common {number}" for user in range(200) for number in range(5)]
    rows += [f"{user},secret of {user}" for user in range(200)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["user,query", *rows]) + "\n", encoding="utf-8")
    return sv.read_log(path)


def test_the_example_of_the_package(log: sv.SearchLog, tmp_path: Path) -> None:
    release = sv.Zealous(epsilon=1, delta=1e-6, item="query", per_user=5).release(log)
    assert str(release.guarantee).startswith("The release is (1, 1e-06)-differentially private")
    assert release.table.column_names == ["query", "count"]
    assert release.table.schema.field("query").type == pa.string()
    assert release.table.schema.field("count").type == pa.int64()
    assert set(release.table["query"].to_pylist()) == {f"common {number}" for number in range(5)}
    counts: list[Any] = release.table["count"].to_pylist()
    assert min(counts) >= 76
    folder = release.write(tmp_path / "out")
    assert folder == tmp_path / "out"
    assert pq.read_table(folder / "data.parquet").equals(release.table)
    log.engine.close()


def test_a_plan_before_anything_is_spent(log: sv.SearchLog) -> None:
    mechanism = sv.Zealous(epsilon=1, delta=1e-6, item="query", per_user=2)
    for planned in (mechanism.plan(log), mechanism.plan(657_426), mechanism.plan()):
        assert isinstance(planned, sv.Plan)
        assert dict(planned.parameters) == {
            "per_user": 2,
            "noise_scale": 2.0,
            "first_threshold": 1,
            "second_threshold": 30,
        }
        assert (planned.guarantee.epsilon, planned.guarantee.delta) == (1, 1e-6)
    assert mechanism.release(log).guarantee == mechanism.plan(log).guarantee
    log.engine.close()


@pytest.mark.slow
def test_a_mechanism_is_a_value(log: sv.SearchLog) -> None:
    mechanism = sv.Zealous(epsilon=1, delta=1e-6)
    assert mechanism == sv.Zealous(epsilon=1, delta=1e-6, item="query", per_user=5, notion="approximate")
    with pytest.raises(AttributeError):
        mechanism.epsilon = 2  # type: ignore[misc]
    assert mechanism.release(log, source=keyed(b"a")).table == mechanism.release(log, source=keyed(b"a")).table
    assert mechanism.release(log, source=keyed(b"a")).table != mechanism.release(log, source=keyed(b"b")).table
    log.engine.close()


def test_a_ledger_pays_in_python_too(log: sv.SearchLog, tmp_path: Path) -> None:
    ledger = sv.Ledger.open(tmp_path / "account", budget_epsilon=1, budget_delta=1e-6)
    mechanism = sv.Zealous(epsilon=1, delta=1e-6)
    mechanism.release(log, ledger=ledger).write(tmp_path / "out")
    with pytest.raises(sv.BudgetRefused, match="already spent ε = 1"):
        mechanism.release(log, ledger=ledger)
    assert [entry.status for entry in ledger.spent().entries] == ["written"]
    log.engine.close()


def test_wrong_parameters_are_refused_on_creation() -> None:
    with pytest.raises(sv.InputError, match="epsilon must be a positive number, not 0"):
        sv.Zealous(epsilon=0, delta=1e-6)
    with pytest.raises(sv.InputError, match="no item 'face'"):
        sv.Zealous(epsilon=1, delta=1e-6, item="face")
    assert issubclass(sv.InputError, sv.SearchveilError)
    assert (sv.InputError.exit_code, sv.BudgetRefused.exit_code) == (2, 3)


def test_every_public_name_is_there() -> None:
    for name in sv.__all__:
        assert getattr(sv, name) is not None
    assert set(dir(sv)) == set(sv.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        sv.Nonsense  # noqa: B018


@pytest.mark.parametrize(
    "statement",
    [
        "import searchveil",
        "import searchveil.cli",
        # What `searchveil --help` does.
        "import contextlib, io, searchveil.cli as cli; sys.argv = ['searchveil', '--help']\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): cli.main()",
        "import contextlib, io, searchveil.cli as cli; sys.argv = ['searchveil', 'release', '--help']\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): cli.main()",
    ],
    ids=["package", "command line", "help", "help of a command"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(statement: str) -> None:
    script = f"import sys\n{statement}\nprint(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "searchveil" in loaded
    assert loaded.isdisjoint(HEAVY)
