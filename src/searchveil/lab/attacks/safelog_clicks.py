"""Erratum S2 at work: SafeLog's click counts, as published, show a single click for certain; ours do not.

Two neighbouring logs differ in one user, who clicked a result of a popular query that nobody else clicked. The paper
releases a noisy count for exactly the urls that were clicked, so the url is there iff the user is; its ε denies that.
"""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from searchveil.engine import open_engine
from searchveil.errors import InputError
from searchveil.items.normal import count_rows
from searchveil.lab.estimate import epsilon_proved
from searchveil.log import SearchLog
from searchveil.privacy import calibrate, safelog
from searchveil.privacy.contributions import first_of_each_user
from searchveil.privacy.noise import DiscreteLaplace, Source
from searchveil.privacy.rounding import at_least, at_most
from searchveil.progress import Progress, silent
from searchveil.publish.safelog_click import SafeLogClick

POPULAR, COMMON_URL, SINGLE_URL = "weather", "http://weather.example", "http://a-rare-disease.example"
CROWD = 500


@dataclass(frozen=True)
class Outcome:
    """One mechanism on both logs: how often the victim's url came out, and what that proves."""

    mechanism: str
    claimed_epsilon: float
    claimed_delta: float
    seen_with_victim: int
    seen_without_victim: int
    runs: int
    epsilon_at_least: float

    @property
    def refuted(self) -> bool:
        return self.epsilon_at_least > self.claimed_epsilon

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"refuted": self.refuted}

    def __str__(self) -> str:
        verdict = "REFUTED" if self.refuted else "not refuted"
        seen = f"{self.seen_with_victim} of {self.runs} releases with the victim, {self.seen_without_victim} without"
        epsilon, delta = at_most(self.claimed_epsilon, 3), at_most(self.claimed_delta, 3)
        return (
            f"{self.mechanism}: claims ε = {epsilon}, δ = {delta}; the click came "
            f"out in {seen}: ε ≥ {at_least(self.epsilon_at_least, 3)} at 95 % confidence. {verdict}."
        )


@dataclass(frozen=True)
class ClickAttack:
    outcomes: tuple[Outcome, ...]

    def to_json(self) -> dict[str, Any]:
        return {"outcomes": [outcome.to_json() for outcome in self.outcomes]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.outcomes))


def attack_safelog_clicks(
    *, noise_scale: float = 10.0, above: float = 10.0, runs: int = 100, source: Source | None = None,
    progress: Progress = silent,
) -> ClickAttack:  # fmt: skip
    """Release both logs many times, by the paper's click release and by ours with the same ε."""
    if runs < 1:
        raise InputError(f"the attack needs at least 1 run, not {runs}")
    calibrate.check_scale(noise_scale)
    source = source or Source()
    paper_epsilon = safelog.click_epsilon(1, 1, noise_scale, above)
    ours = SafeLogClick(epsilon=paper_epsilon, delta=1e-6, queries_per_user=1, clicks_per_user=1)
    engine = open_engine()
    logs = [SearchLog(engine.load(_history(with_victim=present)), engine) for present in (True, False)]

    progress("releasing as the paper does")
    as_published = [sum(_published_clicks(log, noise_scale, above, runs, source)) for log in logs]
    progress("releasing as searchveil does")
    as_ours = [
        sum(SINGLE_URL in ours.release(log, source=source).tables["clicks"]["url"].to_pylist() for _ in range(runs))
        for log in logs
    ]
    engine.close()
    promise = ours.plan().guarantee
    return ClickAttack(
        (
            _outcome("A_Click as published", paper_epsilon, 0.0, as_published, runs),
            _outcome("safelog-click", promise.epsilon, promise.delta, as_ours, runs),
        )
    )


def _history(*, with_victim: bool) -> pa.Table:
    """Everybody searches the popular query and clicks the common url; the victim clicks another."""
    users = CROWD + with_victim
    start = datetime(2006, 3, 1)
    return pa.table(
        {
            "user": list(range(users)),
            "query": [POPULAR] * users,
            "time": [start + timedelta(minutes=i) for i in range(users)],
            "url": [SINGLE_URL if i == CROWD else COMMON_URL for i in range(users)],
        }
    )


def _published_clicks(log: SearchLog, scale: float, above: float, runs: int, source: Source) -> list[bool]:
    """Whether the single url is in the paper's output, run by run: (q, u, clicks + noise) for every clicked u.

    One query and one click of each user, as the paper limits them; q is released iff its noisy count passes K.
    """
    first = first_of_each_user(log.table, ["time"], 1)
    clicks = log.engine.fetch(count_rows(first, "query", "url")).to_pylist()
    searches = sum(row["count"] for row in clicks)
    clicked_urls = {row["url"] for row in clicks}
    passes = searches + DiscreteLaplace(scale).sample(runs, source) > above
    return [bool(passed) and SINGLE_URL in clicked_urls for passed in passes]


def _outcome(name: str, epsilon: float, delta: float, seen: list[int], runs: int) -> Outcome:
    proved = epsilon_proved(seen[0], runs, seen[1], runs, delta)
    return Outcome(name, epsilon, delta, seen[0], seen[1], runs, proved)
