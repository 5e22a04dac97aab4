"""The ledger refuses, remembers and survives: checked with real processes, real kills and damaged files."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchveil.engine import Engine
from searchveil.errors import BudgetRefused, InputError
from searchveil.log import SearchLog
from searchveil.privacy.composition import not_below
from searchveil.privacy.guarantee import Guarantee, Neighbours, Notion
from searchveil.privacy.ledger import Ledger

# A process that reserves 0.3 in the ledger named on its command line. `pause` says "ready" and waits for a line.
PROCESS = """
import sys
from searchveil.errors import BudgetRefused
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.ledger import Ledger

def pause():
    print("ready", flush=True)
    sys.stdin.readline()

plan = {"method": "m", "item": "query", "parameters": {}, "guarantee": Guarantee("approximate", 0.3, 1e-7, "test")}
"""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # for many small ledgers: no disk to wait for
# Makes that process pause when its reservation is in the file but not committed.
BEFORE_THE_COMMIT = """
import sqlite3
class Stops(sqlite3.Connection):
    def execute(self, statement, *values):
        if statement == "COMMIT":
            pause()
        return super().execute(statement, *values)
connect = sqlite3.connect
sqlite3.connect = lambda *given, **named: connect(*given, **named, factory=Stops)
"""
BUDGET: dict[str, Any] = {"budget_epsilon": 1.0, "budget_delta": 1e-6}


def plan(
    epsilon: float = 0.1, delta: float = 0.0, notion: Notion = "approximate", neighbours: Neighbours = "add-remove"
) -> dict[str, Any]:
    """What `reserve` asks for."""
    guarantee = Guarantee(notion, epsilon, delta, "test", neighbours=neighbours, caveats=("a caveat",))
    return {"method": "zealous", "item": "query", "parameters": {"per_user": 5}, "guarantee": guarantee}


def started(program: str, ledger: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS + program, str(ledger)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def intact(path: Path) -> bool:
    file = sqlite3.connect(path)
    try:
        return bool(file.execute("PRAGMA integrity_check").fetchone()[0] == "ok")
    finally:
        file.close()


def test_a_reservation_is_recorded_whole(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    entry = ledger.reserve(**plan(0.25, 1e-7, "probabilistic"))
    assert (entry.id, entry.status, entry.out, entry.epsilon, entry.delta) == (1, "reserved", None, 0.25, 1e-7)
    assert entry.time.endswith("+00:00")
    assert entry.parameters == {"per_user": 5}
    assert entry.guarantee.notion == "probabilistic"
    assert entry.guarantee.caveats == ("a caveat",)
    assert "implies" in entry.counted_as

    entry.written(tmp_path / "out")
    (again,) = Ledger.open(tmp_path / "l.db").spent().entries
    assert again == replace(entry, status="written", out=str(tmp_path / "out"))
    assert json.loads(json.dumps(ledger.spent().to_json()))["entries"][0]["status"] == "written"


def test_ten_tenths_fit_a_budget_of_one_and_nothing_more(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    for _ in range(10):
        ledger.reserve(**plan(0.1, 1e-7))
    with pytest.raises(BudgetRefused) as refused:
        ledger.reserve(**plan(5e-324))
    assert refused.value.exit_code == 3
    spent = ledger.spent()
    assert (spent.basic_epsilon, spent.basic_delta) == (1.0, 1e-6)


def test_a_refusal_says_what_would_fit(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    ledger.reserve(**plan(0.8, 2e-7))
    with pytest.raises(BudgetRefused) as refused:
        ledger.reserve(**plan(0.5, 1e-7))
    assert str(refused.value) == (
        "budget refused: asked ε = 0.5, δ = 1e-07; already spent ε = 0.8, δ = 2e-07 in 1 release; "
        "budget ε = 1, δ = 1e-06; still fits: ε ≤ 0.2, δ ≤ 8e-07"
    )
    ledger.reserve(**plan(0.2, 8e-7))


def test_delta_has_a_budget_of_its_own(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=1, budget_delta=0)
    with pytest.raises(BudgetRefused):
        ledger.reserve(**plan(0.1, 1e-9))
    ledger.reserve(**plan(1.0))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 0.6), st.floats(0, 6e-7)), max_size=8),
    st.floats(0.1, 1),
    st.randoms(use_true_random=False),
)
def test_it_never_overspends_and_order_does_not_matter(
    asked: list[tuple[float, float]], budget: float, shuffler: random.Random
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        ledger = Ledger.open(Path(folder) / "l.db", budget_epsilon=budget, budget_delta=1e-6)
        admitted: list[tuple[float, float]] = []
        for pair in asked:
            total = [sum(map(Fraction, map(repr, column))) for column in zip(*admitted, pair, strict=True)]
            if total[0] <= Fraction(repr(budget)) and total[1] <= Fraction("1e-6"):
                ledger.reserve(**plan(*pair))
                admitted.append(pair)
            else:
                with pytest.raises(BudgetRefused):
                    ledger.reserve(**plan(*pair))
        spent = ledger.spent()
        assert [(entry.epsilon, entry.delta) for entry in spent.entries] == admitted
        assert spent.basic_epsilon <= budget
        assert spent.basic_delta <= 1e-6
        assert spent.best_epsilon <= spent.basic_epsilon

        shuffler.shuffle(admitted)
        other = Ledger.open(Path(folder) / "other.db", budget_epsilon=budget, budget_delta=1e-6)
        for pair in admitted:
            other.reserve(**plan(*pair))
        again = other.spent()
        assert (again.basic_epsilon, again.basic_delta) == (spent.basic_epsilon, spent.basic_delta)


@pytest.mark.slow
def test_eight_processes_cannot_overspend(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    program = """
pause()
try:
    ledger = Ledger.open(sys.argv[1], budget_epsilon=1.0, budget_delta=1e-6)
    print("entry", ledger.reserve(**plan).id)
except BudgetRefused as refused:
    print(refused)
"""
    processes = [started(program, path) for _ in range(8)]  # the file does not exist: they also race to create it
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate() for process in processes]
    assert [stderr for _, stderr in answers] == [""] * 8
    lines = [stdout.strip() for stdout, _ in answers]
    assert sorted(line for line in lines if line.startswith("entry")) == ["entry 1", "entry 2", "entry 3"]
    assert sum("budget refused: asked ε = 0.3" in line for line in lines) == 5
    assert Ledger.open(path).spent().basic_epsilon == 0.9


@pytest.mark.slow
def test_a_reservation_under_way_is_waited_for_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    Ledger.open(path, budget_epsilon=0.5, budget_delta=1e-6)
    first = started(BEFORE_THE_COMMIT + "print(Ledger.open(sys.argv[1]).reserve(**plan).id)", path)
    assert first.stdout is not None
    assert first.stdout.readline() == "ready\n"
    reserve = "print('ready', flush=True)\ntry: ledger.reserve(**plan)\nexcept BudgetRefused as refused: print(refused)"
    second = started("ledger = Ledger.open(sys.argv[1])\n" + reserve, path)
    assert second.stdout is not None
    assert second.stdout.readline() == "ready\n"
    time.sleep(0.5)  # so that the second is most likely waiting; if it is not, the test is easier to pass, never harder
    assert first.communicate("go\n") == ("1\n", "")
    answer, complaint = second.communicate()
    assert complaint == ""
    assert "already spent ε = 0.3" in answer


def test_killed_between_reserve_and_write_the_budget_is_spent(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    Ledger.open(path, **BUDGET)
    with started("entry = Ledger.open(sys.argv[1]).reserve(**plan); pause(); entry.written('out')", path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    spent = Ledger.open(path).spent()
    assert spent.basic_epsilon == 0.3
    assert [entry.status for entry in spent.entries] == ["reserved"]


def test_killed_before_the_commit_nothing_is_spent_and_the_lock_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    Ledger.open(path, **BUDGET)
    with started(BEFORE_THE_COMMIT + "Ledger.open(sys.argv[1]).reserve(**plan)", path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert intact(path)
    assert Ledger.open(path).spent().entries == ()
    Ledger.open(path).reserve(**plan())


@pytest.mark.slow
def test_killed_at_any_moment_what_was_answered_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    Ledger.open(path, budget_epsilon=1e6, budget_delta=0.1)
    program = """
ledger = Ledger.open(sys.argv[1])
while True:
    print(ledger.reserve(**plan).id, flush=True)
"""
    answered: list[int] = []
    for lines in (1, 2, 5, 11, 23):
        with started(program, path) as process:
            assert process.stdout is not None
            answered += [int(process.stdout.readline()) for _ in range(lines)]
            process.send_signal(signal.SIGKILL)
            answered += [int(line) for line in process.stdout.read().splitlines()]
        assert intact(path)
        recorded = [entry.id for entry in Ledger.open(path).spent().entries]
        assert recorded == list(range(1, len(recorded) + 1))
        assert len(recorded) - 1 <= max(answered) <= len(recorded), "only the one being made may be recorded unanswered"
        answered += [recorded[-1]]


def test_two_ledgers_are_two_accounts(tmp_path: Path) -> None:
    small = Ledger.open(tmp_path / "small.db", budget_epsilon=0.1, budget_delta=0)
    large = Ledger.open(tmp_path / "large.db", budget_epsilon=2, budget_delta=1e-6)
    large.reserve(**plan(1.0, 1e-7))
    with pytest.raises(BudgetRefused):
        small.reserve(**plan(1.0, 1e-7))
    assert small.spent().entries == ()
    assert large.spent().basic_epsilon == 1


def test_a_new_ledger_needs_a_budget(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="for example budget_epsilon=1, budget_delta=1e-06"):
        Ledger.open(tmp_path / "l.db", budget_epsilon=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"budget_epsilon": 2.0}, "budget_epsilon=1.0, not 2.0"),
        ({"budget_delta": 0.5}, "budget_delta=1e-06, not 0.5"),
        ({"neighbours": "replace-one"}, "neighbours='add-remove', not replace-one"),
        ({"composition": "pld"}, "composition='basic', not pld"),
    ],
)
def test_a_ledger_keeps_its_budget(tmp_path: Path, asked: dict[str, Any], named: str) -> None:
    Ledger.open(tmp_path / "l.db", **BUDGET).reserve(**plan(0.1))
    assert Ledger.open(tmp_path / "l.db", **BUDGET) == Ledger.open(tmp_path / "l.db")
    with pytest.raises(InputError, match=named):
        Ledger.open(tmp_path / "l.db", **asked)


@pytest.mark.parametrize(
    "budget", [(0.0, 0.0), (-1.0, 0.0), (float("inf"), 0.0), (float("nan"), 0.0), (1.0, 1.0), (1.0, -0.1)]
)
def test_a_budget_must_be_one(tmp_path: Path, budget: tuple[float, float]) -> None:
    with pytest.raises(InputError, match=r"budget_(epsilon|delta) must be"):
        Ledger.open(tmp_path / "l.db", budget_epsilon=budget[0], budget_delta=budget[1])


def test_neighbours_are_converted_where_that_is_true(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=1, budget_delta=1e-5, neighbours="replace-one")
    entry = ledger.reserve(**plan(0.25, 1e-6, "probabilistic"))
    assert entry.epsilon == 0.5
    assert entry.delta == pytest.approx(1e-6 * (1 + 2.718281828459045**0.25), rel=1e-14)
    assert entry.delta > Guarantee("approximate", 0.25, 1e-6, "test").under("replace-one").delta, "rounded outwards"
    assert entry.guarantee.epsilon == 0.25, "the release's own guarantee is kept as it is"
    assert ledger.reserve(**plan(0.5, neighbours="replace-one")).epsilon == 0.5


def test_neighbours_are_not_converted_where_it_is_not(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    with pytest.raises(
        InputError, match=r"release with neighbours='add-remove', or .* ledger with neighbours='replace-one'"
    ):
        ledger.reserve(**plan(neighbours="replace-one"))
    assert ledger.spent().entries == ()


def test_units_do_not_mix(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    ledger.reserve(**plan())
    daily = plan()
    daily["guarantee"] = replace(daily["guarantee"], unit="user-day")
    with pytest.raises(InputError, match=r"per user .* per user-day"):
        ledger.reserve(**daily)


def test_no_differential_privacy_is_refused_by_any_budget(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=1e300, budget_delta=0.999)
    anonymous = plan()
    anonymous["guarantee"] = Guarantee.no_differential_privacy("test", ("k-anonymity only",))
    with pytest.raises(BudgetRefused, match="no finite cost"):
        ledger.reserve(**anonymous)


@pytest.mark.slow
def test_optimal_composition_admits_more_and_says_what_it_assumes(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=2, budget_delta=1e-5, composition="pld")
    releases = 0
    while ledger.spent().best_epsilon < 1.9:
        ledger.reserve(**plan(0.1))
        releases += 1
    assert releases > 20
    with pytest.raises(BudgetRefused, match=r"still fits: ε ≤ 0\.\d+ at the δ asked") as refused:
        ledger.reserve(**plan(0.5))
    spent = ledger.spent()
    assert spent.best_epsilon <= 2 < spent.basic_epsilon
    assert "fixed before the first" in spent.to_json()["budget"]["rule"]
    ledger.reserve(**plan(float(str(refused.value).split("ε ≤ ")[1].split(" ")[0])))


# --- Gaussian composition ---------------------------------------------------------------------------------------------


def weighted(mu: float = 0.2327, outside: float = 3.7e-7, **other: Any) -> dict[str, Any]:
    asked = plan(1.0, 1e-6, **other)
    return asked | {"guarantee": replace(asked["guarantee"], mu=mu, mu_delta=outside)}


def admitted(ledger: Ledger, asked: dict[str, Any]) -> int:
    for number in range(100):
        try:
            ledger.reserve(**asked)
        except BudgetRefused:
            return number
    return 100


def test_squares_of_mu_add_up(tmp_path: Path) -> None:
    """Three times as many releases as the sums of ε admit, however each of them was chosen."""
    budget: dict[str, Any] = {"budget_epsilon": 4, "budget_delta": 1e-5}
    assert admitted(Ledger.open(tmp_path / "basic.db", **budget), weighted()) == 4
    ledger = Ledger.open(tmp_path / "l.db", **budget, composition="gaussian")
    assert admitted(ledger, weighted()) == 13
    total = Ledger.open(tmp_path / "l.db").spent().gaussian
    assert total.squared_mu == 13 * Fraction("0.2327") ** 2
    assert total.delta == 13 * Fraction("3.7e-7")
    told = ledger.spent().to_json()
    assert told["budget"]["composition"] == "gaussian"
    assert told["spent"]["gaussian"]["mu"] == pytest.approx(0.2327 * 13**0.5)
    assert (
        told["spent"]["best"]["epsilon"] <= told["spent"]["gaussian"]["epsilon"] < 4 < told["spent"]["basic"]["epsilon"]
    )
    assert (told["entries"][0]["guarantee"]["mu"], told["entries"][0]["guarantee"]["mu_delta"]) == (0.2327, 3.7e-7)


def test_both_limits_of_a_gaussian_budget_refuse(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=4, budget_delta=1e-5, composition="gaussian")
    ledger.reserve(**weighted(0.5, 4e-6))
    with pytest.raises(BudgetRefused) as refused:
        ledger.reserve(**weighted(0.1, 2e-6))
    assert str(refused.value) == (
        "budget refused: asked μ = 0.1, δ outside = 2e-06; already spent μ = 0.5, δ outside = 4e-06 in 1 release; "
        "budget μ = 0.896107, δ outside = 5e-06; still fits: μ ≤ 0.74364, δ outside ≤ 1e-06"
    )
    with pytest.raises(BudgetRefused):
        ledger.reserve(**weighted(0.75, 1e-6))
    ledger.reserve(**weighted(0.74364, 1e-6))


def test_a_first_release_may_go_by_its_own_epsilon(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=1, budget_delta=1e-6, composition="gaussian")
    with pytest.raises(BudgetRefused):
        ledger.reserve(**plan(1.01, 1e-6))
    ledger.reserve(**plan(1.0, 1e-6))
    with pytest.raises(BudgetRefused):
        ledger.reserve(**weighted(1e-6, 0.0))


def test_releases_without_mu_are_counted_beside(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=4, budget_delta=1e-5, composition="gaussian")
    ledger.reserve(**weighted())
    ledger.reserve(**plan(0.2, 1e-7))
    total = ledger.spent().gaussian
    assert float(total.squared_mu) == pytest.approx(0.2327**2 + (0.2 * 1.2533141373) ** 2)
    assert total.delta == Fraction("3.7e-7") + Fraction("1e-7")


def test_mu_is_about_its_own_neighbours(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=4, budget_delta=1e-5, neighbours="replace-one")
    (entry,) = [ledger.reserve(**weighted())]
    assert entry.cost.mu is None
    assert entry.guarantee.mu == 0.2327
    assert ledger.reserve(**weighted(neighbours="replace-one")).cost.mu == 0.2327


def test_a_gaussian_budget_needs_delta(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="composition='gaussian' needs a budget_delta above 0; try 1e-6"):
        Ledger.open(tmp_path / "l.db", budget_epsilon=1, budget_delta=0, composition="gaussian")
    Ledger.open(tmp_path / "l.db", budget_epsilon=1, budget_delta=0)
    with pytest.raises(InputError, match="needs a budget_delta above 0"):
        Ledger.open(tmp_path / "l.db", composition="gaussian")


@pytest.mark.parametrize("mu", [-0.1, float("inf"), "0.1"])
def test_a_mu_that_is_none_creates_no_budget(tmp_path: Path, mu: Any) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    guarantee = json.dumps(Guarantee("approximate", 1, 0, "a proof").to_json() | {"mu": mu, "mu_delta": 0.0})
    with pytest.raises(sqlite3.DatabaseError, match="malformed entry"):
        ledger._entry({"id": 1, "epsilon": "1", "delta": "0", "parameters": "{}", "guarantee": guarantee})


@pytest.mark.parametrize("damage", ["text", "cut", "overwritten", "other database", "negative cost"])
def test_a_damaged_ledger_is_one_clear_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "l.db"
    Ledger.open(path, **BUDGET).reserve(**plan())
    content = path.read_bytes()
    match damage:
        case "text":
            path.write_text("the searches of nobody\n" * 100)
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "overwritten":
            path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
        case _:
            other = sqlite3.connect(path)
            if damage == "negative cost":
                other.execute("DROP TRIGGER cost_is_fixed")
                other.execute("UPDATE entry SET epsilon = '-5'")
            else:
                other.execute("PRAGMA application_id = 0")
            other.commit()
            other.close()
    with pytest.raises(InputError, match=r"not a ledger|not a searchveil ledger") as complaint:
        Ledger.open(path, **BUDGET).reserve(**plan())
    assert "\n" not in str(complaint.value)


def account_of(path: Path) -> list[Any]:
    """What there is to pay for and to pay with; where a release went may be misspelt, for nothing is counted by it."""
    ledger = Ledger.open(path)
    spent = ledger.spent()
    with pytest.raises(BudgetRefused):
        ledger.reserve(**plan(0.5))
    entries = [{**entry.to_json(), "out": None, "status": None} for entry in spent.entries]
    return [entries, *(value for name, value in vars(spent).items() if name != "entries")]


@pytest.mark.slow
def test_any_flipped_byte_is_one_clear_line_or_changes_nothing(tmp_path: Path) -> None:
    """A damaged file must end in our own words, and never as an account on which less was spent."""
    path, damaged = tmp_path / "l.db", tmp_path / "damaged.db"
    ledger = Ledger.open(path, **BUDGET)
    for epsilon in (0.1, 0.2, 0.3):
        ledger.reserve(**plan(epsilon)).written(tmp_path / str(epsilon))
    content, paid = path.read_bytes(), account_of(path)
    used = [place for place in range(len(content)) if content[place]]  # most of a small file is empty space
    draw, refused = random.Random(9), 0
    for number in range(400):
        place = draw.choice(used) if number % 2 else draw.randrange(len(content))
        flipped = bytes([content[place] ^ draw.randrange(1, 256)])
        damaged.write_bytes(content[:place] + flipped + content[place + 1 :])
        try:
            found = account_of(damaged)
        except InputError as complaint:
            refused += 1
            said = str(complaint)
        else:
            said = ""
            assert found == paid, f"byte {place} became {flipped!r}"
        assert said.isprintable(), f"byte {place} became {flipped!r}"
        for rest in tmp_path.glob("damaged.db?*"):  # a journal of another kind
            rest.unlink()
    assert refused > 100


def test_any_cut_is_one_clear_line(tmp_path: Path) -> None:
    path, damaged = tmp_path / "l.db", tmp_path / "damaged.db"
    ledger = Ledger.open(path, **BUDGET)
    for _ in range(3):
        ledger.reserve(**plan(0.1))
    content = path.read_bytes()
    for length in {*range(0, len(content), 512), 1, 15, 16, 99, 100, len(content) - 1}:
        damaged.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"damaged, or not a ledger|not a searchveil ledger") as complaint:
            Ledger.open(damaged, **BUDGET).reserve(**plan(0.1))
        assert str(complaint.value).isprintable()
        assert damaged.stat().st_size == length, "it is left as it was, for whoever can mend it"


def test_an_empty_file_is_no_new_account(tmp_path: Path) -> None:
    (tmp_path / "l.db").touch()
    with pytest.raises(InputError, match=r"l\.db cannot be used: damaged.*the file is empty.*restore it from a backup"):
        Ledger.open(tmp_path / "l.db", **BUDGET)
    assert (tmp_path / "l.db").stat().st_size == 0


def test_entries_that_were_taken_out_are_missed(tmp_path: Path) -> None:
    for where in ("id = 3", "id = 1", "id > 0"):
        path = tmp_path / f"{where}.db"
        ledger = Ledger.open(path, **BUDGET)
        for _ in range(3):
            ledger.reserve(**plan(0.1))
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            (trigger,) = file.execute("SELECT sql FROM sqlite_master WHERE name = 'spent_stays_spent'").fetchone()
            file.execute("DROP TRIGGER spent_stays_spent")
            file.execute(f"DELETE FROM entry WHERE {where}")
            file.execute(trigger)
        with pytest.raises(InputError, match="damaged, or not a ledger"):
            Ledger.open(path)


def test_a_ledger_appears_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    making = started(BEFORE_THE_COMMIT + "Ledger.open(sys.argv[1], budget_epsilon=1, budget_delta=1e-6)", path)
    assert making.stdout is not None
    assert making.stdout.readline() == "ready\n"
    assert not path.exists()
    making.kill()
    making.communicate()
    assert not path.exists()
    ledger = Ledger.open(path, **BUDGET)
    assert oct(path.stat().st_mode)[-3:] == "600"
    assert ledger == Ledger.open(path)
    assert ledger.spent().entries == ()


def test_before_anything_is_paid_the_budget_can_still_be_chosen(tmp_path: Path) -> None:
    """The first release may be refused, for its own reasons or because it asks too much."""
    path = tmp_path / "l.db"
    with pytest.raises(BudgetRefused):
        Ledger.open(path, **BUDGET).reserve(**plan(2.0))
    ledger = Ledger.open(path, budget_epsilon=3.0, composition="pld")
    assert (ledger.budget.epsilon, ledger.budget.delta, ledger.budget.composition) == (3.0, 1e-6, "pld")
    assert ledger == Ledger.open(path)
    ledger.reserve(**plan(2.0))
    with pytest.raises(InputError, match=r"budget_epsilon=3\.0, not 9"):
        Ledger.open(path, budget_epsilon=9)


def test_one_ledger_is_about_one_log(tmp_path: Path, engine: Engine) -> None:
    def log(*rows: tuple[Any, str]) -> SearchLog:
        users, queries = zip(*rows, strict=True)
        table = pa.table({"user": pa.array(users), "query": pa.array(queries, pa.string())})
        return SearchLog(engine.load(table), engine, source=str(random.random()))

    rows = [("anna", "weather"), ("björn", "νέα"), ("anna", "x" * 2000)]
    mine, longer = log(*rows), log(*rows, ("carl", "weather"))
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    ledger.reserve(**plan(0.1), log=mine)
    ledger.reserve(**plan(0.1), log=log(*reversed(rows)))  # elsewhere, in another order: the same rows
    others = [longer, log(*rows[:2]), log(("anna", "weather"), ("björn", "νέα"), ("dora", "x" * 2000))]
    for other in others:
        with pytest.raises(InputError, match=r"account of another log.*same_log=True") as complaint:
            ledger.reserve(**plan(0.1), log=other)
        assert "weather" not in str(complaint.value)
    assert len(ledger.spent().entries) == 2
    Ledger.open(tmp_path / "l.db", same_log=True).reserve(**plan(0.1), log=longer)
    ledger.reserve(**plan(0.1), log=longer)  # said once, it is known
    ledger.reserve(**plan(0.1), log=mine)
    shown = json.dumps(ledger.spent().to_json()) + repr(ledger.spent())
    for entry in ledger.spent().entries:
        assert entry.log is not None
        assert entry.log not in shown, "by which a guess about the rows could be checked"


@pytest.mark.spark
def test_a_log_is_the_same_on_every_engine(tmp_path: Path, duckdb_engine: Engine, spark_engine: Engine) -> None:
    texts = pa.table(
        {"user": ["b", "Z", "ä", "10", "9"], "query": ["weather", "Ärger", "🦊 fox", "", "zebra"]},
    )
    numbers = pa.table({"user": [10, 9, 200], "query": ["a", "b", "c"]})
    for name, rows in {"texts": texts, "numbers": numbers}.items():
        ledger = Ledger.open(tmp_path / name, **BUDGET)
        for engine in (duckdb_engine, spark_engine):
            ledger.reserve(**plan(0.1), log=SearchLog(engine.load(rows), engine))


def test_what_is_spent_cannot_be_edited_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    Ledger.open(path, **BUDGET).reserve(**plan())
    file = sqlite3.connect(path)
    for statement in ("DELETE FROM entry", "UPDATE entry SET epsilon = '0'", "UPDATE account SET budget_epsilon = '9'"):
        with pytest.raises(sqlite3.IntegrityError):
            file.execute(statement)
    file.close()


def test_a_ledger_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "missing" / "l.db", tmp_path / "file" / "l.db", tmp_path):
        with pytest.raises(InputError) as complaint:
            Ledger.open(path, **BUDGET)
        assert str(path) in str(complaint.value)
        assert "\n" not in str(complaint.value)


def test_a_ledger_that_vanished_is_not_begun_anew(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    (tmp_path / "l.db").unlink()
    with pytest.raises(InputError, match="nothing was released"):
        ledger.reserve(**plan())
    assert list(tmp_path.iterdir()) == []


def test_a_budget_exchanged_meanwhile_is_noticed(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    (tmp_path / "l.db").unlink()
    Ledger.open(tmp_path / "l.db", budget_epsilon=0.01, budget_delta=0)
    with pytest.raises(InputError, match="replaced"):
        ledger.reserve(**plan())


def test_an_odd_name_is_just_a_name(tmp_path: Path) -> None:
    path = tmp_path / "log of 100% ? #1 é.db"
    Ledger.open(path, **BUDGET).reserve(**plan())
    assert path.is_file()
    assert len(Ledger.open(path).spent().entries) == 1


def test_a_promise_that_group_privacy_leaves_nothing_of_is_refused(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=20, budget_delta=0.9, neighbours="replace-one")
    with pytest.raises(BudgetRefused, match="counted as replace-one, the release has δ = 1, which promises nothing"):
        ledger.reserve(**plan(5.0, 0.1))
    assert ledger.spent().entries == ()


@pytest.mark.parametrize("composition", ["basic", "gaussian", "pld"])
def test_what_is_foreseen_is_what_is_paid(tmp_path: Path, composition: Any) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=1.0, budget_delta=1e-5, composition=composition)
    ledger.reserve(**plan(0.2, 1e-7))
    asked = [plan(0.1 * (1 + number % 3), 1e-7) for number in range(30)]
    foreseen = ledger.foresee([one["guarantee"] for one in asked])
    assert len(ledger.spent().entries) == 1, "nothing is paid by looking"
    *paid, last = foreseen
    for one, expected in zip(asked, paid, strict=False):
        ledger.reserve(**one)
        spent = ledger.spent()
        assert expected.refusal is None
        assert (spent.basic_epsilon, spent.basic_delta) == (
            not_below(expected.total.epsilon),
            not_below(expected.total.delta),
        )
    with pytest.raises(BudgetRefused) as refusal:
        ledger.reserve(**asked[len(paid)])
    assert str(refusal.value) == str(last.refusal)


def test_what_no_ledger_counts_is_foreseen_as_refused(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", **BUDGET)
    (foreseen,) = ledger.foresee([Guarantee.no_differential_privacy("test", ("a caveat",))] * 2)
    assert "no finite cost" in str(foreseen.refusal)
