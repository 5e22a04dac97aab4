"""A new kind of item is one file and one line: here it is defined in the test, registered, and used everywhere.

Keys are fixed, so nothing fails by chance on unchanged code. A change that draws anew refutes the right method with a
probability of at most 0.05.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import ibis
import ibis.expr.types as ir
import mutants
import pyarrow as pa
import pytest
from keyed import keyed

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.items import ITEMS, Derivation, Item, Search
from searchveil.items.item import normal_query
from searchveil.items.normal import sum_counts
from searchveil.lab.audit import audit
from searchveil.lab.evaluate import evaluate
from searchveil.lab.report import write_report
from searchveil.log import SearchLog
from searchveil.privacy.noise import DiscreteLaplace
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.release import Release
from searchveil.publish.threshold import survivors
from searchveil.publish.weighted import Weighted
from searchveil.publish.zealous import Zealous

# --- the file of an item ----------------------------------------------------------------------------------------------


def rows(log: SearchLog) -> ir.Table:
    """A click, and whether its result was the first, on the first page or further down."""
    clicked = log.table.filter(log.table["url"].notnull() & log.table["rank"].notnull())
    rank = clicked["rank"]
    return clicked.select(
        "user", "query", "url", place=ibis.cases((rank == 1, "first"), (rank <= 10, "page"), else_="deep")
    )


PLACED = Item("placed-click", ("query", "url", "place"), rows, needs=("url", "rank"), finish=normal_query)

# --- the line of registration -----------------------------------------------------------------------------------------


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ITEMS, PLACED.name, PLACED)


# --- what works now ---------------------------------------------------------------------------------------------------

each_engine = pytest.mark.parametrize(
    "engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])], indirect=True
)
CLICKS = [
    *((f"u{i}", " Cheap  FLIGHTS " if i % 2 else "cheap flights", "air.example", 1) for i in range(60)),
    *((f"u{i}", "cheap flights", "air.example", 4) for i in range(50)),
    *((f"u{i}", "hotels", "inn.example", 12) for i in range(40)),
    *((f"u{i}", "hotels", "inn.example", 12) for i in range(20)),  # a second time
    *((f"u{i}", f"my own query {i}", "mine.example", 1) for i in range(60)),
    *((f"u{i}", "hotels", "inn.example", None) for i in range(50)),
]
USERS = {
    ("cheap flights", "air.example", "first"): 60,
    ("cheap flights", "air.example", "page"): 50,
    ("hotels", "inn.example", "deep"): 40,
}
MECHANISMS = {
    "zealous": Zealous(40, 1e-6, item="query", per_user=5),
    "weighted": Weighted(40, 1e-6, item="query"),
}
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


def log_of(engine: Engine) -> SearchLog:
    table = pa.table(
        {
            "user": [click[0] for click in CLICKS],
            "query": [click[1] for click in CLICKS],
            "url": [click[2] for click in CLICKS],
            "rank": pa.array([click[3] for click in CLICKS], pa.int32()),
        }
    )
    return SearchLog(engine.load(table), engine)


def counts_of(release: Release, item: Item) -> dict[tuple[str, ...], int]:
    assert release.table.column_names == [*item.columns, "count"]
    return {tuple(row[column] for column in item.columns): row["count"] for row in release.table.to_pylist()}


@each_engine
@each_mechanism
def test_it_is_released_and_evaluated(registered: None, engine: Engine, mechanism: Mechanism) -> None:
    """What many share comes out with nearly its count, what one user alone did does not."""
    log = log_of(engine)
    release = replace(mechanism, item="placed-click").release(log, source=keyed(b"item"))  # type: ignore[call-arg]
    counts = counts_of(release, PLACED)
    assert set(counts) == set(USERS)
    assert all(abs(counts[item] - USERS[item]) <= 8 for item in USERS)
    found = evaluate(release, log)
    assert found.doubt is None
    assert found.measures["diversity"]["placed-click.kept"] == len(USERS)
    assert found.measures["count-distribution"]["placed-click.total_original"] == sum(USERS.values()) + 60
    assert found.charts["item"] == "placed-click"
    assert not found.applications
    assert found.skipped["ad-hoc-search"] == "the release has no clicks"


@pytest.mark.slow
def test_its_folder_says_the_same_and_the_report_has_its_words(
    registered: None, duckdb_engine: Engine, tmp_path: Path
) -> None:
    log = log_of(duckdb_engine)
    release = Zealous(40, 1e-6, item="placed-click").release(log, source=keyed(b"item"))
    folder = release.write(tmp_path / "out", format="csv")
    found = evaluate(folder, log)
    assert found.measures == evaluate(release, log).measures
    report = write_report(tmp_path / "report.html", found, folder, against="a log")
    assert "placed-clicks with at least this count" in report.read_text(encoding="utf-8")


@pytest.mark.slow
@each_engine
def test_it_is_audited(registered: None, engine: Engine) -> None:
    """The canary is seen: a method that does not keep its bound is refuted by her."""
    broken = mutants.EveryItem(0.3, 0.1, "placed-click", per_user=1)
    report = audit(broken, runs=24, canaries=["flood"], source=keyed(b"new"), engine=engine)
    assert report.refuted_by == ("flood",), str(report)


@pytest.mark.slow
def test_a_right_method_passes_its_audit(registered: None) -> None:
    mechanism = Zealous(0.3, 0.1, "placed-click", per_user=1)
    report = audit(mechanism, runs=60, canaries=["near", "flood", "spelling"], source=keyed(b"new"))
    assert report.verdict == "not refuted", str(report)


# --- names and types --------------------------------------------------------------------------------------------------

ANY_NAMES = (
    *("place", "choice", "last", "taken"),  # what the package calls its own columns, or called them once
    *("holder", "holders", "id", "spellings", "typed_holder", "differs"),
    *("digest", "slot", "items", "allowed"),
    *("original", "release", "published", "user_right"),
    *("position", "session", "draws", "generalised", "time", "rank"),
    *("select", "a b", 'say "when"', "é"),
)


def under_any_names(log: SearchLog) -> ir.Table:
    first, *others = ANY_NAMES
    return log.table.select("user", **{first: log.table["query"].lower()}, **dict.fromkeys(others, log.table["url"]))


NAMED = Item("named", ANY_NAMES, under_any_names)


@pytest.mark.slow
@each_mechanism
def test_columns_have_any_names(
    monkeypatch: pytest.MonkeyPatch, duckdb_engine: Engine, mechanism: Mechanism, tmp_path: Path
) -> None:
    monkeypatch.setitem(ITEMS, NAMED.name, NAMED)
    log = log_of(duckdb_engine)
    release = replace(mechanism, item=NAMED).release(log, source=keyed(b"names"))  # type: ignore[call-arg]
    assert release.table.column_names == [*ANY_NAMES, "count"]
    assert release.table.num_rows >= 2
    for format in ("parquet", "csv", "tsv"):
        found = evaluate(release.write(tmp_path / format, format=format), log)
        assert found.measures["diversity"]["named.kept"] == release.table.num_rows


def test_survivors_far_below_the_threshold_are_chosen_under_any_names(duckdb_engine: Engine) -> None:
    columns = ("digest", "place", "allowed")
    rows = {column: [f"text {i}" for i in range(400)] for column in columns} | {"count": [1] * 400}
    noise = DiscreteLaplace(4.0)
    chosen = survivors(
        duckdb_engine.load(pa.table(rows)),
        columns,
        threshold=3,
        noise=noise,
        engine=duckdb_engine,
        source=keyed(b"far"),
    )
    assert chosen.column_names == [*columns, "count"]
    assert 60 < chosen.num_rows < 260  # 135 are expected; the key is fixed
    assert chosen["digest"].to_pylist() == chosen["place"].to_pylist()


@pytest.mark.parametrize(
    ("name", "columns", "says"),
    [
        ("query", ("user",), "a column cannot be called 'user'"),
        ("query", ("query", "Count"), "'Count': user, count, score and names that begin with _ are taken"),
        ("query", ("_place",), "'_place'"),
        ("query", (), "at least one column"),
        ("query", ("url", "URL"), "no two of the same name"),
        ("two words", ("query",), "a name has small letters"),
    ],
)
def test_names_that_are_taken_are_refused(name: str, columns: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Item(name, columns, rows)


@each_mechanism
def test_numbers_are_published_as_texts_and_rows_without_a_value_are_no_items(
    duckdb_engine: Engine, mechanism: Mechanism
) -> None:
    item = Item("rank", ("rank",), lambda log: log.table.select("user", "rank"), needs=("rank",))
    release = replace(mechanism, item=item).release(log_of(duckdb_engine))  # type: ignore[call-arg]
    assert set(counts_of(release, item)) == {("1",), ("4",), ("12",)}


def test_hashes_take_any_number_of_values(engine: Engine) -> None:
    table = engine.load(pa.table({name: ["x", "x", "y"] for name in "abcdef"}))
    for number in range(1, 7):
        values = [table[name] for name in "abcdef"[:number]]
        found = [engine.fetch(table.select(h=engine.fast_hash(values, seed)))["h"].to_pylist() for seed in (1, 2)]
        for x, same, y in found:
            assert x == same != y
        assert found[0] != found[1]


# --- what an item can say of itself -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_follows_from_its_counts_decides_which_measures_and_applications_apply(
    monkeypatch: pytest.MonkeyPatch, duckdb_engine: Engine
) -> None:
    telling = replace(
        PLACED,
        plural="clicks by place",
        derivations=(Derivation("click", "placed-click", lambda counts: sum_counts(counts, "query", "url")),),
    )
    monkeypatch.setitem(ITEMS, telling.name, telling)
    log = log_of(duckdb_engine)
    release = Zealous(40, 1e-6, item="placed-click").release(log, source=keyed(b"item"))
    found = evaluate(release, log, applications=["ad-hoc-search", "query-suggestion"])
    assert set(found.applications) == {"ad-hoc-search"}
    assert found.skipped["query-suggestion"] == "the release has no query transitions"
    assert {"frequent-pairs", "diff-ratio"} <= set(found.measures)
    kept = found.measures["diversity"]
    assert (kept["placed-click.kept"], kept["click.kept"], kept["url.kept"], kept["query.kept"]) == (3, 2, 2, 2)
    totals = found.measures["count-distribution"]
    assert totals["click.total_original"] == totals["placed-click.total_original"], "told in the same way on both sides"


def test_an_item_says_how_often_it_occurs_and_by_how_many_users(registered: None, duckdb_engine: Engine) -> None:
    from searchveil.lab.view import View

    view = View.of_log(log_of(duckdb_engine))
    place = ("hotels", "inn.example", "deep")
    counted = {}
    for way, tables in view.ways.items():
        if "placed-click" in tables:
            found = duckdb_engine.fetch(tables["placed-click"]).to_pylist()
            counted[way] = Counter({tuple(row[column] for column in PLACED.columns): row["count"] for row in found})
    assert {way: counts[place] for way, counts in counted.items()} == {"occurrences": 60, "users": 40}


def of_the_government(log: SearchLog) -> ir.Table:
    return log.table.filter(log.table["url"].endswith(".gov")).select("user", "query", "url")


@pytest.mark.slow
def test_an_item_says_how_one_of_its_kind_is_made() -> None:
    """The usual searches make none of these, and the audit says that it sees nothing."""
    quiet = Item("gov", ("query", "url"), of_the_government, needs=("url",))
    asked = {"runs": 60, "canaries": ["flood"], "source": keyed(b"gov")}
    with pytest.raises(InputError, match="cannot see its canary"):
        audit(mutants.EveryItem(0.5, 0.1, quiet, per_user=1), **asked)  # type: ignore[arg-type]
    telling = replace(quiet, example=lambda texts: [Search(text, f"http://{text}.gov", 2) for text in texts])
    assert audit(mutants.EveryItem(0.5, 0.1, telling, per_user=1), **asked).refuted_by == ("flood",)  # type: ignore[arg-type]
