"""The click model, worked out by hand."""

from math import log2

import pytest
from tiny_logs import tiny_test, tiny_view

from searchveil.engine import Engine
from searchveil.lab.applications.click_model import ClickModel

MODEL = ClickModel(prior=2.0, unknown=0.5)


def test_by_hand(engine: Engine) -> None:
    view = tiny_view(engine, click=[("q", "u", 6), ("q", "v", 2), ("other", "w", 8), ("noisy", "u", 0)])
    found = MODEL.run(view, tiny_test(view, clicks={"q": {"u": 3, "w": 1}, "new": {"x": 1}, "never clicked": {}}))
    nobody = 0.5 / 10_000_000
    u = (6 + 2 * (0.5 * 6 / 16 + nobody)) / 10
    w = 2 * (0.5 * 8 / 16 + nobody) / 10  # of another query
    x = 2 * nobody / 2
    assert found["bits"] == pytest.approx(-(3 * log2(u) + log2(w) + log2(x)) / 5)
    assert found["first result over all"] == 3 / 5
    assert (found["answered"], found["asked"]) == (1, 2)


def test_equal_results_stand_in_the_order_of_their_names(duckdb_engine: Engine) -> None:
    view = tiny_view(duckdb_engine, click=[("q", "v", 2), ("q", "u", 2)])
    assert MODEL.run(view, tiny_test(view, clicks={"q": {"u": 1}}))["first result over all"] == 1


def test_a_view_without_a_click_knows_nothing(duckdb_engine: Engine) -> None:
    view = tiny_view(duckdb_engine, click=[])
    found = MODEL.run(view, tiny_test(view, clicks={"q": {"u": 1}}))
    assert found["bits"] == pytest.approx(-log2(0.5 / 10_000_000))
    assert found["answered"] == 0
