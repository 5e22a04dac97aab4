"""The privacy condition, proved and not merely computed: no user is exposed by more than b.

Solvers answer within tolerances and logarithms are rounded, so nothing of theirs is trusted here. Amounts are integers:
the number of draws x_i of the multinomial sampler, or the Poisson sampler's expected count in units of 2^-32. A float
bound with a proven error clears almost everybody at once; whoever is nearer to b than that error is judged exactly.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from searchveil.errors import InputError
from searchveil.optimize.program import ClickCounts, Integers, Reals, Sampler
from searchveil.privacy.intervals import Interval, Intervals, context, exactly

UNITS = 2**32  # of the Poisson sampler's amounts in one expected count
ROUNDING = 2.0**-52  # twice the relative error of one float operation; the other half covers products of errors
LOG_TERMS = 18  # of the series below: what is left out is less than a thousandth of one rounding
LOG_ROUNDINGS = 128  # no more than 6 for each of its terms, and a few around them
BLOCK = 2**16  # logarithms to work out together, in the processor's cache
LN2_ABOVE = 0.6931471805599454  # the float above ln 2
LARGEST_COUNT = 2.0**30  # beyond any log, and small enough for amounts in 64 bits
EXACT_FLOATS = 2**53  # every integer up to here is a float
FORBIDDEN = 2.0**900  # what drawing a pair exposes its only user by: beyond any limit, and 0 draws of it are still 0
LARGEST_LIMIT = 1e30  # far below that
PRECISIONS = (120, 1_000, 10_000)  # bits, tried in turn for users near b


@dataclass(frozen=True)
class LogOf:
    """ln of a rational number, as a limit: no float holds it.

    At δ = 1/2 the limit is ln 2, and one draw of a pair that two users clicked once exposes each by exactly ln 2. The
    nearest float lies below, and would forbid every such pair: a quarter of a typical release.
    """

    of: Fraction

    def __float__(self) -> float:
        """The nearest float, or next to it."""
        iv = context(PRECISIONS[0])
        return float(_interval(iv, self).a)


Limit = float | LogOf


def limit(epsilon: float, delta: float) -> Limit:
    """b = min(ε, ln 1/(1−δ)), which is what both samplers may expose a user by.

    A δ is taken both as the float it is and as the decimal it prints as, and the smaller counts.
    """
    by_delta = LogOf(1 / (1 - min(Fraction(delta), Fraction(repr(float(delta))))))
    for bits in PRECISIONS:
        iv = context(bits)
        missing = iv.mpf(epsilon) - _interval(iv, by_delta)
        if missing.a > 0:
            return by_delta
        if missing.b < 0:
            break
    return epsilon


def check_limit(b: Limit) -> None:
    if not 0 < float(b) < LARGEST_LIMIT:
        raise InputError(f"the limit on a user's exposure must be a positive number, not {float(b)}; try 0.7")


def for_search(b: Limit, tolerance: float) -> float:
    """A float to search with whose ties fall on the right side: allowed where the limit is exact, avoided where not."""
    return float(b) * (1 + tolerance if isinstance(b, LogOf) else 1 - tolerance)


def violated(counts: ClickCounts, sampler: Sampler, x: Integers, b: Limit) -> Integers:
    """The users for whom it is not proved that their exposure is at most b, exactly."""
    check_limit(b)
    amounts = _checked(counts, x)
    loads = exposure_above(counts, sampler) @ amounts.astype(np.float64)
    error = (np.diff(counts.matrix.indptr) + LOG_ROUNDINGS + 16) * ROUNDING  # of a user's load, and of float(b)
    guilty = loads * (1 - error) > float(b)
    proof = _proved_multinomial if sampler == "multinomial" else _proved_poisson
    for user in np.flatnonzero(~(loads * (1 + error) <= float(b)) & ~guilty).tolist():
        guilty[user] = not proof(*_clicks(counts, amounts, user), b)
    return np.flatnonzero(guilty)


def round_down(x: Reals | Integers) -> Integers:
    """Whole draws from a solver's counts, which may lie a hair below the integer that was meant."""
    return np.floor(_plausible(x) + 1e-6).astype(np.int64)


def quantize(x: Reals) -> Integers:
    """Expected counts in units of 2^-32, rounded down: what the Poisson sampler can be held to exactly."""
    return np.floor(_plausible(x) * UNITS).astype(np.int64)  # a power of two: the product is exact


def _plausible(x: Reals | Integers) -> Reals:
    counts = np.asarray(x, np.float64)
    if not ((counts >= 0) & (counts < LARGEST_COUNT)).all():
        raise InputError(f"a solver's counts must lie in 0 … 2^30, not {counts.min()} … {counts.max()}")
    return counts


def repair(counts: ClickCounts, sampler: Sampler, x: Integers, b: Limit) -> Integers:
    """The amounts, lowered until nobody is violated; where nobody is, unchanged."""
    guilty = violated(counts, sampler, x, b)
    if not len(guilty):
        return x
    lower = _fewer_draws if sampler == "multinomial" else _smaller_amounts
    lowered = x
    while len(guilty):
        lowered = lower(counts, lowered, b, guilty)
        guilty = violated(counts, sampler, lowered, b)
    if sampler == "poisson":
        return lowered
    regrown = _regrown(counts, lowered, x, b)
    while len(guilty := violated(counts, sampler, regrown, b)):
        regrown = _fewer_draws(counts, regrown, b, guilty)
    return regrown


def exposure_above(counts: ClickCounts, sampler: Sampler) -> Any:
    """The matrix of the condition from additions, multiplications and divisions only, whose errors IEEE 754 bounds.

    Entry by entry within LOG_ROUNDINGS roundings of the truth. Worked out once for the same counts, and read-only: the
    condition is judged by it.
    """
    known = _exposures.setdefault(counts, {})
    if sampler not in known:
        known[sampler] = _exposure_above(counts, sampler)
    return known[sampler]


_exposures: WeakKeyDictionary[ClickCounts, dict[Sampler, Any]] = WeakKeyDictionary()


def _exposure_above(counts: ClickCounts, sampler: Sampler) -> Any:
    held = counts.matrix.data
    of = counts.totals[counts.matrix.indices]
    if counts.size > EXACT_FLOATS // 4:
        raise InputError(f"{counts.size} clicks are more than can be certified; split the log")
    values = held / of / UNITS if sampler == "poisson" else _log_ratio(of, of - held)
    values.setflags(write=False)
    exposed = sparse.csr_array((values, counts.matrix.indices, counts.matrix.indptr), shape=counts.matrix.shape)
    exposed.has_canonical_format = True  # as the counts are; scipy need not look, nor reorder
    return exposed


def largest_exposures(matrix: Any) -> Reals:
    """Of each pair, the exposure of the user it exposes most; 0 if it has none."""
    largest = np.zeros(matrix.shape[1])
    entries = matrix.tocoo()
    np.maximum.at(largest, entries.col, entries.data)
    return largest


def _log_ratio(larger: Integers, smaller: Integers) -> Reals:
    """ln(larger/smaller), FORBIDDEN at smaller = 0. All terms are positive, so that relative errors only add up.

    With larger/smaller = 2^k·m and q = (m − 1)/(m + 1) it is k ln 2 + 2(q + q³/3 + q⁵/5 + …); m ≤ 2 keeps q ≤ 1/3.
    """
    logs = np.empty(len(larger))
    for start in range(0, len(larger), BLOCK):
        block = slice(start, start + BLOCK)
        logs[block] = _log_ratio_of_some(larger[block], smaller[block])
    return logs


def _log_ratio_of_some(larger: Integers, smaller: Integers) -> Reals:
    some = np.maximum(smaller, 1)
    halvings = np.maximum(np.frexp(larger / some)[1] - 1, 0).astype(np.int64)
    halvings -= (some << halvings) > larger  # where the division rounded up to a power of two
    scaled = some << halvings  # exact: at most `larger`
    q = (larger - scaled) / (larger + scaled)
    square = q * q
    series = np.zeros_like(q)
    for odd in range(2 * LOG_TERMS - 1, 0, -2):
        series *= square
        series += 1 / odd
    return np.where(smaller > 0, halvings * LN2_ABOVE + 2 * q * series, FORBIDDEN)


def _checked(counts: ClickCounts, x: Integers) -> Integers:
    if x.shape != (counts.pairs,):
        raise InputError(f"{x.shape} amounts for {counts.pairs} pairs")
    if not np.issubdtype(x.dtype, np.integer):
        raise InputError("amounts must be integers; floor the draws, or quantize the expected counts")
    if len(x) and x.min() < 0:
        raise InputError(f"amounts must not be negative, but pair {int(x.argmin())} has {x.min()}")
    return x


def _clicks(counts: ClickCounts, amounts: Integers, user: int) -> tuple[list[int], list[int], list[int]]:
    """Amount, everybody's clicks and this user's clicks, for each of her pairs that is drawn at all."""
    row = slice(counts.matrix.indptr[user], counts.matrix.indptr[user + 1])
    pairs, held = counts.matrix.indices[row], counts.matrix.data[row]
    drawn = amounts[pairs] > 0
    pairs = pairs[drawn]
    return amounts[pairs].tolist(), counts.totals[pairs].tolist(), held[drawn].tolist()


def _proved_multinomial(amounts: list[int], totals: list[int], held: list[int], b: Limit) -> bool:
    """Σ x ln c/(c−h) ≤ b. Against a float b ≠ 0 there are no ties, e^b being transcendental: some precision decides."""
    if any(c == h for c, h in zip(totals, held, strict=True)):
        return False
    if isinstance(b, LogOf):
        clicks = list(zip(amounts, totals, held, strict=True))
        above = prod(c**x for x, c, _ in clicks) * b.of.denominator
        return bool(above <= prod((c - h) ** x for x, c, h in clicks) * b.of.numerator)
    for bits in PRECISIONS:
        iv = context(bits)
        terms = zip(amounts, totals, held, strict=True)
        load = sum((x * iv.log(iv.mpf(c) / (c - h)) for x, c, h in terms), iv.mpf(0))
        if load.b <= b or load.a > b:
            return bool(load.b <= b)
    return False


def _proved_poisson(amounts: list[int], totals: list[int], held: list[int], b: Limit) -> bool:
    """Σ w h/c ≤ 2^32 b, in rational numbers; the logarithm of a rational is never one of them."""
    load = sum((Fraction(w * h, c) for w, c, h in zip(amounts, totals, held, strict=True)), Fraction(0)) / UNITS
    if not isinstance(b, LogOf):
        return load <= Fraction(b)
    for bits in PRECISIONS:
        iv = context(bits)
        missing = _interval(iv, b) - iv.mpf(load.numerator) / load.denominator
        if missing.a >= 0 or missing.b < 0:
            return bool(missing.a >= 0)
    return False


def _interval(iv: Intervals, b: LogOf) -> Interval:
    return iv.log(exactly(iv, b.of))


def _smaller_amounts(counts: ClickCounts, w: Integers, b: Limit, guilty: Integers) -> Integers:
    """Every pair of a violated user shrinks by as much as her exposure is too large, and by at least one unit.

    That clears each of them at once but for roundings.
    """
    held = exposure_above(counts, "poisson")[guilty]
    loads = held @ w.astype(np.float64)
    keep = np.repeat(np.minimum(float(b) / loads, 1), np.diff(held.indptr))
    smallest = np.ones(counts.pairs)
    np.minimum.at(smallest, held.indices, keep)
    touched = np.unique(held.indices)
    lowered = w.copy()
    lowered[touched] = np.maximum(
        np.minimum(np.floor(w[touched] * smallest[touched]).astype(np.int64), w[touched] - 1), 0
    )
    return lowered


def _fewer_draws(counts: ClickCounts, x: Integers, b: Limit, guilty: Integers) -> Integers:
    """Each violated user gives up draws of one pair: of hers, the one that exposes the violated the most in all."""
    held = exposure_above(counts, "multinomial")[guilty]
    held.data = np.where(x[held.indices] > 0, held.data, 0.0)
    users = np.repeat(np.arange(len(guilty)), np.diff(held.indptr))
    blame = np.asarray(held.sum(axis=0)).ravel()
    order = np.lexsort((held.indices, -blame[held.indices] * (held.data > 0), users))
    chosen = order[np.searchsorted(users, np.arange(len(guilty)))]  # the first of each user
    excess = held @ x.astype(np.float64) - float(b)
    draws = np.maximum(np.ceil(np.minimum(excess / held.data[chosen], 2.0**62)), 1).astype(np.int64)
    given_up = np.zeros_like(x)
    np.maximum.at(given_up, held.indices[chosen], draws)
    lowered: Integers = np.maximum(x - given_up, 0)
    return lowered


def _regrown(counts: ClickCounts, x: Integers, most: Integers, b: Limit) -> Integers:
    """Draws that were given up come back where they fit after all, the least exposing pairs first."""
    columns = exposure_above(counts, "multinomial").tocsc()
    slack = for_search(b, 2.0**-40) - columns @ x.astype(np.float64)
    exposed = largest_exposures(columns)
    lowered = np.flatnonzero(x < most)
    grown = x.copy()
    for i in lowered[np.argsort(exposed[lowered], kind="stable")]:
        column = slice(columns.indptr[i], columns.indptr[i + 1])
        holders, each = columns.indices[column], columns.data[column]
        fits = min(int(max(np.floor(slack[holders] / each).min(), 0)), int(most[i] - x[i]))
        grown[i] += fits
        slack[holders] -= fits * each
    return grown
