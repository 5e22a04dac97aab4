"""What to expect from a public guess: seconds of work for each figure, so another process does it, one at a time."""

import signal
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from os import _exit
from typing import Any

from searchveil.publish import build
from searchveil.publish.expected import expected_rows, forecast

MOST_KEPT = 2000  # figures
COMPARED = ("weighted", "votes", "zealous")
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the ε that was chosen

Texts = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Question:
    method: str
    given: Texts
    guess: Texts
    rows_alone: bool = False


def question(method: str, given: Mapping[str, Any], guess: Mapping[str, str], *, rows_alone: bool = False) -> Question:
    def frozen(texts: Mapping[str, Any]) -> Texts:
        return tuple(sorted((name, tuple(text) if isinstance(text, list) else text) for name, text in texts.items()))

    return Question(method, frozen(given), frozen({name: text for name, text in guess.items() if text}), rows_alone)


def answer(asked: Question) -> dict[str, Any]:
    """As `searchveil plan` tells it; runs in the other process."""
    from searchveil.privacy.calibrate import Assumption

    guess = Assumption.of(dict(asked.guess)) if asked.guess else None
    mechanism = build(asked.method, dict(asked.given))
    if asked.rows_alone:
        assert guess is not None
        return {"expected_rows": expected_rows(mechanism, guess)}
    found = forecast(mechanism, guess)
    if other := found.get("instead"):
        found["instead"] = (other[0].method, other[1])
    return found


def begin() -> None:
    """A Ctrl-C is for the server, and nothing is worked out for one that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        server = parent_process()
        if server is not None:
            server.join()
        _exit(0)

    threading.Thread(target=follow, daemon=True, name="server").start()


class Forecasts:
    """Answers, each worked out once."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._asked: OrderedDict[Question, Future[dict[str, Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, asked: Question) -> "Future[dict[str, Any]]":
        with self._lock:
            known = self._asked.get(asked)
            if known is None or known.cancelled():
                known = self._asked[asked] = self._submit(asked)
            self._asked.move_to_end(asked)
            while len(self._asked) > MOST_KEPT:
                self._asked.popitem(last=False)
            return known

    def forget(self, wanted: "set[Question]") -> None:
        """Questions that nobody waits for any more: settings change faster than they are answered."""
        with self._lock:
            for asked in [one for one in self._asked if one not in wanted]:
                if self._asked[asked].cancel():
                    del self._asked[asked]

    def _submit(self, asked: Question) -> "Future[dict[str, Any]]":
        if self._pool is None or getattr(self._pool, "_broken", False):
            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=begin)
        return self._pool.submit(answer, asked)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def epsilons(chosen: float) -> list[float]:
    """Those of the chart: around the chosen one, in round figures."""
    return [float(f"{factor * chosen:.3g}") for factor in FACTORS]


def to_compare(
    method: str, given: Mapping[str, Any], guess: Mapping[str, str], chosen: float
) -> dict[tuple[str, float], Question]:
    """A question for each point of the chart, the quick ones first.

    The chosen method with all its parameters; others with their defaults, and the same promise about the same items.
    """
    shared = {name: given[name] for name in ("item", "delta", "neighbours") if name in given}
    others = [name for name in COMPARED[::-1] if name != method]
    points = [(name, epsilon) for name in (*others, method) for epsilon in epsilons(chosen)]
    return {
        (name, epsilon): question(
            name, {**(given if name == method else shared), "epsilon": repr(epsilon)}, guess, rows_alone=True
        )
        for name, epsilon in points
    }
