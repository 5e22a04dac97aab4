"""The demo log with what real logs have: odd queries, and one address that many share."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from searchveil.log.demo import planted_personal_queries, write_demo
from searchveil.log.demo.rough import LONGEST_PASTED, OTHER_SCRIPTS, SHARED


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rough")
    write_demo(folder / "plain.parquet", users=3000, seed=1)
    write_demo(folder / "odd.parquet", users=3000, seed=1, odd_queries=True)
    write_demo(folder / "shared.parquet", users=3000, seed=1, shared_address=True)
    write_demo(folder / "fewer.parquet", users=1000, seed=1, odd_queries=True, shared_address=True)
    write_demo(folder / "both.parquet", users=3000, seed=1, odd_queries=True, shared_address=True)
    return folder


@pytest.mark.slow
def test_odd_queries_take_the_place_of_others_and_change_nothing_else(folder: Path) -> None:
    plain, odd = pq.read_table(folder / "plain.parquet"), pq.read_table(folder / "odd.parquet")
    assert odd.drop_columns(["query"]).equals(plain.drop_columns(["query"]))
    texts = list(map(str, odd["query"].to_pylist()))
    changed = [text for text, before in zip(texts, plain["query"].to_pylist(), strict=True) if text != before]
    share = {
        "-": sum(text == "-" for text in changed) / len(texts),
        "scripts": sum(text in OTHER_SCRIPTS for text in changed) / len(texts),
        "pasted": sum(len(text) >= 100 for text in changed) / len(texts),
    }
    # Some 170,000 rows: five standard deviations of each share, whatever the clicks of a submission.
    assert share["-"] == pytest.approx(0.015, abs=0.003)
    assert share["scripts"] == pytest.approx(0.012, abs=0.003)
    assert share["pasted"] == pytest.approx(0.0006, abs=0.0005)
    assert 200 < max(map(len, texts)) <= LONGEST_PASTED


@pytest.mark.slow
def test_the_rows_of_a_submission_change_together(folder: Path) -> None:
    of: dict[tuple[int, object], set[str]] = {}
    for row in pq.read_table(folder / "odd.parquet").to_pylist():
        of.setdefault((row["user"], row["time"]), set()).add(row["query"])
    assert not any("-" in queries and len(queries) > 1 for queries in of.values())


@pytest.mark.slow
def test_one_address_has_a_sixth_of_the_rows(folder: Path) -> None:
    plain, shared = pq.read_table(folder / "plain.parquet"), pq.read_table(folder / "shared.parquet")
    users = shared["user"].to_pylist()
    assert users.count(SHARED) / len(users) == pytest.approx(1 / 6, abs=0.04)
    assert len(set(users)) - 1 == pytest.approx(2500, abs=100)
    assert shared.drop_columns(["user"]).equals(plain.drop_columns(["user"]))


@pytest.mark.slow
def test_planted_queries_stay_with_their_users(folder: Path) -> None:
    planted = {(row["user"], row["query"]) for row in planted_personal_queries(3000, seed=1).to_pylist()}
    found = {(row["user"], row["query"]) for row in pq.read_table(folder / "both.parquet").to_pylist()}
    assert planted <= found


@pytest.mark.slow
def test_a_smaller_log_is_the_beginning_of_a_larger_one(folder: Path) -> None:
    fewer, both = pq.read_table(folder / "fewer.parquet"), pq.read_table(folder / "both.parquet")
    assert both.slice(0, fewer.num_rows).equals(fewer)
