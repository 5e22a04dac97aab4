"""Who searches when: users of very different activity, their sessions, and the moments of every submission."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from searchveil.log.demo.codes import Ints

DAYS = 92
HOUR, DAY = 3_600, 86_400
LOG_START = np.datetime64("2024-03-01T00:00:00", "s")
HOUR_SHARES = np.array(
    [
        *(3.9, 2.6, 1.7, 1.1, 0.8, 0.9, 1.3, 2.2, 3.1, 4.0, 4.7, 5.2),
        *(5.2, 5.2, 5.5, 5.6, 5.8, 5.7, 5.7, 6.0, 6.3, 6.4, 6.1, 5.2),
    ]
)

# Sessions per user are log-normal: half the users have a handful, a few have hundreds.
SESSIONS_MEDIAN, SESSIONS_SPREAD, MOST_SESSIONS = 6.1, 1.36, 1_800

# Submissions per session: many of one, then a slowly falling tail.
SINGLE_SESSIONS, LONG_TAIL_STOP, LONGEST_SESSION = 0.46, 0.305, 100

# On request, one session in so many is long: a power law from there on, as in small samples of real logs.
LONG_ONE_IN, LONG_FROM, LONG_EXPONENT, LONGEST = 600, 30, 1.2, 500

PAUSE_MEDIAN, PAUSE_SPREAD, LONGEST_PAUSE = 55.0, 1.2, 1_500  # seconds between submissions of a session
REST = 31 * 60  # between two sessions of a user, so that a 30-minute rule tells them apart


@dataclass(frozen=True)
class Submissions:
    """Every submission of a chunk in order of user and time; users are numbered from 0 within the chunk."""

    user: Ints
    time: Ints  # seconds since the start of the log
    opens_session: npt.NDArray[np.bool_]
    place: Ints  # position among the submissions of the same user

    def __len__(self) -> int:
        return len(self.user)


def draw_submissions(rng: np.random.Generator, users: int, long_sessions: bool = False) -> Submissions:
    sessions = np.ceil(rng.lognormal(np.log(SESSIONS_MEDIAN), SESSIONS_SPREAD, users))
    session_user = np.repeat(np.arange(users), np.minimum(sessions, MOST_SESSIONS).astype(np.int64))
    count = len(session_user)
    tail = 1 + rng.geometric(LONG_TAIL_STOP, count)
    length = np.where(rng.random(count) < SINGLE_SESSIONS, 1, np.minimum(tail, LONGEST_SESSION))
    if long_sessions:
        length = _with_long_ones(rng, length)

    first = np.cumsum(length) - length
    pause = 2 + rng.lognormal(np.log(PAUSE_MEDIAN), PAUSE_SPREAD, int(length.sum()))
    seconds: Ints = np.minimum(pause, LONGEST_PAUSE).astype(np.int64)
    seconds[first] = 0
    elapsed = np.cumsum(seconds)
    elapsed -= np.repeat(elapsed[first], length)
    duration = elapsed[first + length - 1]

    start = _keep_apart(_session_starts(rng, session_user), duration, session_user)
    user = np.repeat(session_user, length)
    opens = np.zeros(len(user), np.bool_)
    opens[first] = True
    first_of_user = np.searchsorted(user, np.arange(users))
    return Submissions(user, np.repeat(start, length) + elapsed, opens, np.arange(len(user)) - first_of_user[user])


def _with_long_ones(rng: np.random.Generator, length: Ints) -> Ints:
    is_long = rng.random(len(length)) < 1 / LONG_ONE_IN
    long = np.minimum(LONG_FROM * (1 - rng.random(len(length))) ** (-1 / LONG_EXPONENT), LONGEST)
    return np.where(is_long, long.astype(np.int64), length)


def _session_starts(rng: np.random.Generator, session_user: Ints) -> Ints:
    """Moments following the daily rhythm, in order of time within each user."""
    count = len(session_user)
    hour_ends = np.cumsum(HOUR_SHARES) / HOUR_SHARES.sum()
    hour = np.searchsorted(hour_ends, rng.random(count), side="right")
    start = rng.integers(0, DAYS, count) * DAY + np.minimum(hour, 23) * HOUR + rng.integers(0, HOUR, count)
    return np.sort(session_user * (DAYS * DAY) + start) - session_user * (DAYS * DAY)


def _keep_apart(start: Ints, duration: Ints, session_user: Ints) -> Ints:
    """Delay sessions until the user's session before is over and rested from.

    A session starts at the latest of (start of an earlier one + all durations and rests between): a running maximum.
    """
    busy = duration + REST
    busy_before = np.cumsum(busy) - busy
    user_gap = int(busy_before[-1] + busy[-1]) + DAYS * DAY  # keeps one user's maximum from reaching the next user
    shifted = start - busy_before + session_user * user_gap
    return np.asarray(np.maximum.accumulate(shifted) + busy_before - session_user * user_gap, np.int64)
