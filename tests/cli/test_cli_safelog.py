"""SafeLog on the command line: pools, plans, releases, exports and the attack; and every refusal in one line."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commandline import assert_refused, demo_log, entries, everything_in, new_ledger, succeed

CLICK = ("--method", "safelog-click")
SESSION = ("--method", "safelog-session")
ONE = ("--epsilon", "1", "--delta", "1e-6")


def crowd(folder: Path, users: int = 60) -> Path:
    """Everybody searches weather and then news, and clicks one result; in the columns of AOL."""
    lines = ["AnonID\tQuery\tQueryTime\tItemRank\tClickURL"]
    for user in range(users):
        lines.append(f"{user}\tweather\t2006-03-01 10:00:00\t1\thttp://sun.example")
        lines.append(f"{user}\tnews\t2006-03-01 10:01:00\t2\thttp://paper.example")
        lines.append(f"{user}\tjane{user}@mail.example\t2006-03-01 10:02:00\t\t")
    path = folder / "log.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


# --- the way through --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_from_a_demo_log_to_a_pool_a_release_and_a_graph(tmp_path: Path) -> None:
    """The real command, a process for each step."""
    log = demo_log()
    (tmp_path / "public.txt").write_text("weather\nnews\n" + "".join(f"public query {i}\n" for i in range(500)))
    made = succeed(tmp_path, "pool", "--queries", "public.txt", "--out", "pool.parquet", "--json").json
    assert made == {"out": "pool.parquet", "queries": 502}

    generous = ("--epsilon", "60", "--delta", "1e-3", "--transitions", "--pool", "pool.parquet")
    released = succeed(tmp_path, "release", log, *CLICK, *generous, "--out", "clicks", "--json").json
    assert released["guarantee"]["epsilon"] == 60
    assert released["parameters"]["pool_size"] == 502
    assert {path.name for path in (tmp_path / "clicks").iterdir()} >= {
        "data.parquet", "clicks.parquet", "transitions.parquet", "guarantee.json", "README.md",
    }  # fmt: skip
    published = pq.read_table(tmp_path / "clicks" / "data.parquet")
    assert published.num_rows == released["rows"] > 0
    asked = set(published["query"].to_pylist())
    clicked = pq.read_table(tmp_path / "clicks" / "clicks.parquet")
    assert set(clicked["query"].to_pylist()) <= asked, "clicks only on published queries"

    exported = succeed(tmp_path, "export", "clicks", "--out", "graph", "--json").json
    edges = (tmp_path / "graph" / "edges.tsv").read_text().splitlines()
    assert exported["files"]["edges.tsv"] == len(edges) - 1 >= clicked.num_rows

    again = succeed(tmp_path, "pool", "--release", "clicks", "--out", "second.parquet", "--json").json
    assert again["queries"] == len(asked)


@pytest.mark.slow
def test_sessions_of_a_demo_log_and_orcas(searchveil: Any, tmp_path: Path) -> None:
    how = (*SESSION, "--epsilon", 80, "--delta", 1e-2, "--clicks-per-user", 4, "--table", "parquet")
    done = searchveil("release", demo_log(), *how, "--out", "sessions", "--json")
    assert (done.code, done.said) == (0, [])
    table = pq.read_table(tmp_path / "sessions" / "data.parquet")
    assert table.num_rows == done.json["rows"]
    assert all(len(row["session"]) in (2, 3) for row in table.to_pylist())
    assert pq.read_table(tmp_path / "sessions" / "clicks.parquet").num_rows > 0
    exported = searchveil("export", "sessions", "--layout", "orcas", "--out", "orcas", "--json")
    assert exported.json["files"]["orcas.tsv"] > 0


@pytest.mark.slow
def test_what_everybody_did_comes_out_and_what_looks_personal_does_not(searchveil: Any, tmp_path: Path) -> None:
    log = crowd(tmp_path)
    same = ("--epsilon", 60, "--delta", 1e-4, "--table", "csv")
    for method, out in ((CLICK, "c"), (SESSION, "s")):
        done = searchveil("release", log, *method, *same, "--out", out)
        assert (done.code, done.said) == (0, [])
        text = (tmp_path / out / "data.csv").read_text()
        assert "weather" in text
        assert "@" not in text
    assert '"[""weather"", ""news""]"' in (tmp_path / "s" / "data.csv").read_text(), "a session is a list"


@pytest.mark.slow
def test_the_filter_that_protects_nobody_is_told_before_and_after(searchveil: Any, tmp_path: Path) -> None:
    log = crowd(tmp_path)
    assert searchveil("plan", *CLICK, *ONE, "--json").json["guarantee"]["unprotected"] == []
    planned = searchveil("plan", *CLICK, *ONE, "--at-least", 3, "--json").json["guarantee"]["unprotected"]
    assert "frequency filter" in planned[0]
    assert searchveil("release", log, *CLICK, *ONE, "--at-least", 3, "--out", "r").code == 0
    assert (
        "frequency filter" in json.loads((tmp_path / "r" / "guarantee.json").read_text())["guarantee"]["unprotected"][0]
    )
    assert "frequency filter" in (tmp_path / "r" / "README.md").read_text()


def test_a_recommendation_is_printed_and_in_the_json(searchveil: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": [f"q{i}" for i in range(1000)]}), tmp_path / "p.parquet")
    how = ("plan", *CLICK, *ONE, "--pool", "p.parquet", "--recommend")
    recommended = searchveil(*how, "--json").json["recommended"]
    assert set(recommended) == {"paper", "ours"}
    for settings in recommended.values():
        assert set(settings) == {"noise_scale", "threshold", "expected_pool_slips"}
    text = searchveil(*how).out
    assert "Recommended (paper): noise scale 11, above 20.25, expected pool slips" in text
    assert "Recommended (ours): noise scale 6, above" in text


def test_the_papers_claim_is_in_every_record_beside_ours(searchveil: Any) -> None:
    """docs/errata.md: "the paper's ε is printed beside ours as `paper_epsilon`"; a person reads the text."""
    at = ("--noise-scale", 11, "--above", 20.25)
    assert "paper_epsilon" in searchveil("plan", *CLICK, *at, "--json").json
    text = searchveil("plan", *CLICK, *at).out
    assert "0.818" in text


@pytest.mark.parametrize(
    "how", [(*CLICK, "--above", 0), (*SESSION, "--above", 20, "--queries-per-session", 12)], ids=["ε", "δ"]
)
def test_a_claim_that_is_infinite_is_still_json(searchveil: Any, how: tuple[object, ...]) -> None:
    """JSON has no infinity (the guarantee writes null), and a release is paid before its record is written."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(searchveil("plan", *how, "--noise-scale", 1, "--json").out, parse_constant=refuse)


def test_a_pool_from_n_grams(searchveil: Any, tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("9\tred house\n3\tcar\n2\tquickly\n")
    done = searchveil("pool", "--ngrams", "n.txt", "--size", 6, "--seed", 2, "--out", "p.parquet")
    assert (done.code, done.out) == (0, "p.parquet: 6 queries\n")
    assert all(row["query"].endswith(("house", "car")) for row in pq.read_table("p.parquet").to_pylist())


@pytest.mark.slow
def test_the_attack_refutes_the_paper_and_not_us(searchveil: Any) -> None:
    done = searchveil("attack", "safelog-clicks", "--runs", 10, "--json")
    assert done.code == 0
    assert [outcome["refuted"] for outcome in done.json["outcomes"]] == [True, False]


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "neither promise nor noise": ((*CLICK,), ("--epsilon", "--noise-scale")),
    "both promise and noise": ((*CLICK, *ONE, "--noise-scale", 3), ("--epsilon", "--noise-scale", "one of them")),
    "noise without threshold": ((*SESSION, "--noise-scale", 3), ("--above", "--delta")),
    "no delta for clicks": ((*CLICK, "--epsilon", 1), ("queries, clicks", "--delta")),
    "no delta for sessions": ((*SESSION, "--epsilon", 1), ("--delta",)),
    "negative clicks": ((*CLICK, *ONE, "--clicks-per-user", -1), ("clicks", "not -1")),
    "negative clicks of sessions": ((*SESSION, *ONE, "--clicks-per-user", -1), ("clicks", "not -1")),
    "no sessions": ((*SESSION, *ONE, "--sessions-per-user", 0), ("not 0", "--sessions-per-user")),
    "one query in a session": ((*SESSION, *ONE, "--queries-per-session", 1), ("--queries-per-session", "not 1")),
    "too many in a session": ((*SESSION, *ONE, "--queries-per-session", 13), ("from 2 to 12", "subsequences")),
    "a wrong pattern": ((*CLICK, *ONE, "--pattern", "(x"), ("'(x'", "regular expression")),
    "a wrong pattern of sessions": ((*SESSION, *ONE, "--pattern", "[x"), ("'[x'", "regular expression")),
    "a pattern beyond the engine": ((*CLICK, *ONE, "--pattern", "x(?=y)"), ("x(?=y)",)),
    "threshold infeasible": ((*CLICK, *ONE, "--above", 20), ("20", "infeasible", "--above")),
    "threshold infeasible for sessions": ((*SESSION, *ONE, "--above", 20), ("20", "infeasible", "--above")),
    "threshold infinite": ((*CLICK, "--noise-scale", 3, "--above", "inf"), ("--above",)),
    "gap infinite": ((*SESSION, *ONE, "--gap-minutes", "inf"), ("gap",)),
    "domain without a pool": ((*CLICK, "--epsilon", 1, "--domain", "pool", "--clicks-per-user", 0), ("pool", "--pool")),
    "unknown domain": ((*CLICK, *ONE, "--domain", "log"), ("'log'", "pool+log")),
    "no such pool": ((*CLICK, *ONE, "--pool", "none.parquet"), ("none.parquet", "searchveil pool")),
    "an empty pool": ((*CLICK, *ONE, "--pool", "empty.parquet"), ("empty.parquet", "empty")),
    "a text as a pool": ((*CLICK, *ONE, "--pool", "pool.txt"), ("pool.txt", "searchveil pool")),
    "a pool for sessions": ((*SESSION, *ONE, "--pool", "one.parquet"), ("session has no --pool", "safelog-click")),
    "coverage of nothing": ((*CLICK, *ONE, "--pool-coverage", 0), ("--pool-coverage",)),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_release_is_refused_in_one_line_and_costs_nothing(searchveil: Any, tmp_path: Path, case: str) -> None:
    arguments, says = REFUSED[case]
    crowd(tmp_path)
    pq.write_table(pa.table({"query": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    pq.write_table(pa.table({"query": ["weather"]}), tmp_path / "one.parquet")
    (tmp_path / "pool.txt").write_text("weather\n")
    ledger = new_ledger(tmp_path)
    before = everything_in(tmp_path)
    assert_refused(searchveil("release", "log.tsv", *arguments, "--ledger", ledger, "--out", "out"), *says)
    assert entries(ledger) == ()
    assert everything_in(tmp_path) == before


def test_a_log_without_times_has_no_sessions(searchveil: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,query\n1,a\n2,b\n")
    ledger = new_ledger(tmp_path)
    for method, why in ((SESSION, "telling sessions apart"), (CLICK, "first queries")):
        done = searchveil("release", "log.csv", *method, *ONE, "--ledger", ledger, "--out", "out")
        assert_refused(done, "log.csv", "no time", why)
    assert entries(ledger) == ()


def test_a_pool_of_one_query_is_a_pool(searchveil: Any, tmp_path: Path) -> None:
    log = crowd(tmp_path)
    (tmp_path / "one.txt").write_text("weather\n")
    assert searchveil("pool", "--queries", "one.txt", "--out", "one.parquet").out == "one.parquet: 1 query\n"
    how = (*CLICK, "--domain", "pool", "--pool", "one.parquet", "--epsilon", 30, "--clicks-per-user", 0)
    done = searchveil("release", log, *how, "--out", "out", "--json")
    assert done.json["guarantee"]["delta"] == 0
    assert pq.read_table(tmp_path / "out" / "data.parquet")["query"].to_pylist() == ["weather"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("pool", "--out", "p"), "name one source"),
        (("pool", "--queries", "q.txt", "--release", "r", "--out", "p"), "name one source"),
        (("pool", "--queries", "none.txt", "--out", "p"), "none.txt"),
        (("pool", "--queries", "empty.txt", "--out", "p"), "has no query in it"),
        (("pool", "--queries", "q.csv", "--out", "p"), "q.csv has no column 'query'"),
        (("pool", "--ngrams", "q.txt", "--out", "p"), "ends like a noun"),
        (("pool", "--ngrams", "zeros.txt", "--out", "p"), "zeros.txt"),
        (("pool", "--ngrams", "q.txt", "--size", "0", "--out", "p"), "at least one query, not 0"),
        (("pool", "--release", "nowhere", "--out", "p"), "nowhere is no release folder"),
        (("pool", "--queries", "q.txt", "--out", "q.csv"), "q.csv exists"),
        (("export", "nowhere", "--out", "o"), "nowhere is no release folder"),
        (("export", ".", "--layout", "gml", "--out", "o"), "no layout 'gml'"),
        (("export", ".", "--out", "q.txt"), "q.txt exists already"),
        (("plan", *SESSION, *ONE, "--recommend"), "has no --recommend; methods that have it: safelog-click"),
        (("plan", *CLICK, "--noise-scale", "3", "--above", "9", "--recommend"), "--epsilon"),
        (("attack", "safelog-clicks", "--runs", "0"), "at least 1 run, not 0"),
        (("attack", "safelog-clicks", "--noise-scale", "0", "--runs", "1"), "noise scale"),
        (("plan", "--method", "zealous", *ONE, "--pool", "q.txt"), "zealous has no --pool"),
    ],
)  # fmt: skip
def test_other_commands_refuse_in_one_line(searchveil: Any, tmp_path: Path, arguments: Any, says: str) -> None:
    (tmp_path / "q.txt").write_text("weather\nnews\n")
    (tmp_path / "q.csv").write_text("text,count\na,1\nb,2\n")
    (tmp_path / "zeros.txt").write_text("0 car\n")
    (tmp_path / "empty.txt").touch()
    before = everything_in(tmp_path)
    assert_refused(searchveil(*arguments), says)
    assert everything_in(tmp_path) == before


@pytest.mark.slow
def test_a_pool_is_not_made_from_what_nothing_protects(searchveil: Any, tmp_path: Path) -> None:
    log = crowd(tmp_path)
    for number, how in enumerate((("--method", "k-query", "--k", 2), (*CLICK, *ONE, "--at-least", 3))):
        assert searchveil("release", log, *how, "--out", f"r{number}").code == 0
        refused = searchveil("pool", "--release", f"r{number}", "--out", "pool.parquet")
        assert_refused(refused, f"r{number} is not differentially private", "--queries")
    (tmp_path / "r0" / "guarantee.json").unlink()
    assert_refused(
        searchveil("pool", "--release", "r0", "--out", "pool.parquet"), "r0 is no release folder", "guarantee.json"
    )
    assert not (tmp_path / "pool.parquet").exists()


def test_no_ledger_pays_where_the_filter_protects_nobody(searchveil: Any, tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    how = (*CLICK, *ONE, "--at-least", 3, "--ledger", ledger, "--out", "out")
    assert_refused(searchveil("release", crowd(tmp_path), *how), "without differential privacy", code=3)
    assert entries(ledger) == ()
