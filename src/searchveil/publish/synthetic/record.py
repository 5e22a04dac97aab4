"""statistics.json: everything that was measured, as it is handed out, and read back to draw again without the log."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import numpy as np

from searchveil.errors import InputError
from searchveil.publish.synthetic.searches import Period
from searchveil.publish.synthetic.statistics import Statistics

NAME = "statistics"
DIGITS = 3  # after the point; the noise is far larger


def to_json(statistics: Statistics) -> dict[str, Any]:
    period = statistics.period
    return {
        "queries": statistics.queries,
        "pairs": statistics.pairs,
        "transitions": statistics.transitions,
        "words": statistics.words,
        "bigrams": statistics.bigrams,
        "urls": statistics.urls,
        "noisy": {name: np.round(values, DIGITS).tolist() for name, values in statistics.noisy.items()},
        "deviation": statistics.deviation,
        "least": statistics.least,
        "period": None if period is None else [period.first.isoformat(), period.last.isoformat()],
    }


def from_json(record: Mapping[str, Any], source: str) -> Statistics:
    try:
        period = record["period"]
        return Statistics(
            _texts(record["queries"]),
            [(int(number), str(url)) for number, url in record["pairs"]],
            _pairs(record["transitions"]),
            _texts(record["words"]),
            _pairs(record["bigrams"]),
            _texts(record["urls"]),
            {str(name): np.array(values, np.float64) for name, values in record["noisy"].items()},
            {str(name): float(value) for name, value in record["deviation"].items()},
            {str(name): float(value) for name, value in record["least"].items()},
            None if period is None else Period(*(date.fromisoformat(day) for day in period)),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{source}: {NAME}.json does not hold the statistics of a synthetic log") from problem


def _texts(values: Iterable[Any]) -> list[str]:
    return [str(text) for text in values]


def _pairs(values: Iterable[Any]) -> list[tuple[int, int]]:
    return [(int(first), int(second)) for first, second in values]
