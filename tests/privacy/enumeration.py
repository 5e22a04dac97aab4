"""The exact privacy loss of small mechanisms, by enumerating every output in rational arithmetic.

Discrete Laplace noise with p = e^(-1/λ) has rational probabilities if p is rational, and e^ε is then a power of 1/p. So
nothing here is approximate: an inequality that holds here holds, and an equality is an equality.

A *profile* describes how one item tells two neighbouring logs apart: for every output its probability under either log,
outputs with the same likelihood ratio taken together. Items are independent given their counts, so the profile of
several items is the product of theirs, and the smallest δ at e^ε is the hockey-stick divergence Σ max(0, P − e^ε·Q).
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import inf, log, prod

ONE = Fraction(1)
Ratio = Fraction | float  # a fraction, or infinity where only the first log can give the output
Profile = Mapping[Ratio, tuple[Fraction, Fraction]]
Kept = tuple[int, ...]  # what one user keeps: 1 or 0 for each item
Histogram = tuple[int, ...]

NOTHING: Profile = {ONE: (ONE, ONE)}  # an item whose count is the same in both logs


def scale_of(p: Fraction) -> float:
    """The floating-point λ nearest to e^(-1/λ) = p."""
    return 1 / -log(p)


def probability(p: Fraction, t: int) -> Fraction:
    """P(η = t)."""
    return (1 - p) / (1 + p) * p ** abs(t)


def tail(p: Fraction, t: int) -> Fraction:
    """P(η ≥ t)."""
    return p**t / (1 + p) if t >= 0 else 1 - p ** (1 - t) / (1 + p)


# --- one item ---------------------------------------------------------------------------------------------------------


def profile_of(pairs: Iterable[tuple[Fraction, Fraction]]) -> Profile:
    """Collect (probability under the first log, under the second) by their ratio."""
    collected: dict[Ratio, tuple[Fraction, Fraction]] = {}
    for one, other in pairs:
        if one == other == 0:
            continue
        ratio = one / other if other else inf
        before = collected.get(ratio, (Fraction(0), Fraction(0)))
        collected[ratio] = (before[0] + one, before[1] + other)
    return collected


@cache
def thresholded(p: Fraction, one: int, other: int, threshold: int, first_threshold: int) -> Profile:
    """An item counted `one` and `other` times: published with its noisy count iff that is at least `threshold`.

    Below the first threshold the item is not there at all. From the larger count on, the ratio of the probabilities of
    a published value is constant, so all these values are one output.
    """
    end = max(threshold, one, other)

    def outputs(count: int) -> list[Fraction]:
        if count < first_threshold:
            return [ONE, *(Fraction(0) for _ in range(threshold, end + 1))]
        values = [probability(p, value - count) for value in range(threshold, end)]
        return [1 - tail(p, threshold - count), *values, tail(p, end - count)]

    return profile_of(zip(outputs(one), outputs(other), strict=True))


@cache
def thresholded_fresh(p: Fraction, one: int, other: int, threshold: int) -> Profile:
    """The same with the first threshold 1, but the published count carries fresh noise of the same scale."""
    low, high = min(one, other), max(one, other)

    def outputs(count: int) -> list[Fraction]:
        selected = tail(p, threshold - count) if count else Fraction(0)
        values = [1 - tail(p, low + 1 - count), *(probability(p, v - count) for v in range(low + 1, high))]
        if high > low:
            values.append(tail(p, high - count))
        else:
            values = [ONE]
        return [1 - selected, *(selected * value for value in values)]

    return profile_of(zip(outputs(one), outputs(other), strict=True))


# --- several items ----------------------------------------------------------------------------------------------------


def together(profiles: Iterable[Profile]) -> Profile:
    """The profile of independent items."""
    joint: Profile = NOTHING
    for profile in profiles:
        joint = profile_of((p1 * p2, q1 * q2) for (p1, q1), (p2, q2) in product(joint.values(), profile.values()))
    return joint


def divergence(profile: Profile, e_epsilon: Fraction) -> Fraction:
    """The smallest δ for which P ≤ e^ε·Q + δ on every set of outputs."""
    return sum((max(Fraction(0), p - e_epsilon * q) for p, q in profile.values()), Fraction(0))


def reverse(profile: Profile) -> Profile:
    return profile_of((q, p) for p, q in profile.values())


def divergence_either_way(profile: Profile, e_epsilon: Fraction) -> Fraction:
    return max(divergence(profile, e_epsilon), divergence(reverse(profile), e_epsilon))


def ways_to_spend(total: int) -> list[tuple[int, ...]]:
    """How one user may spread up to `total` occurrences over different items, largest part first: 3, 2+1, 2, …"""

    def parts(rest: int, largest: int) -> Iterable[tuple[int, ...]]:
        yield ()
        for part in range(1, min(rest, largest) + 1):
            for others in parts(rest - part, part):
                yield (part, *others)

    return sorted(set(parts(total, total)))


def worst_added_user(
    p: Fraction, e_epsilon: Fraction, additions: Iterable[tuple[int, ...]], backgrounds: range, **mechanism: int
) -> Fraction:
    """The largest divergence, both ways, when one user is added: over all additions and all counts of the others."""
    worst = Fraction(0)
    for addition in additions:
        choices = [range(len(backgrounds))] * len(addition)
        for chosen in product(*choices):
            profile = together(
                _item(p, backgrounds[i] + part, backgrounds[i], mechanism)
                for i, part in zip(chosen, addition, strict=True)
            )
            worst = max(worst, divergence_either_way(profile, e_epsilon))
    return worst


def worst_replaced_user(
    p: Fraction, e_epsilon: Fraction, spends: Iterable[tuple[int, ...]], backgrounds: range, **mechanism: int
) -> Fraction:
    """The largest divergence when one user's items give way to other items (a shared item changes less: left out).

    Swapping the two histories gives the other direction, so one direction over all pairs is both.
    """
    removed = _distinct_profiles(p, spends, backgrounds, mechanism)
    added = [reverse(profile) for profile in removed]
    return max(divergence(together((gone, new)), e_epsilon) for gone, new in product(removed, added))


def _distinct_profiles(
    p: Fraction, spends: Iterable[tuple[int, ...]], backgrounds: range, mechanism: Mapping[str, int]
) -> list[Profile]:
    """One user's possible contributions as profiles (with the user, without), equal ones once."""
    profiles: dict[frozenset[tuple[Ratio, tuple[Fraction, Fraction]]], Profile] = {}
    for spend in spends:
        for counts in product(backgrounds, repeat=len(spend)):
            profile = together(_item(p, x + part, x, mechanism) for x, part in zip(counts, spend, strict=True))
            profiles[frozenset(profile.items())] = profile
    return list(profiles.values())


def _item(p: Fraction, one: int, other: int, mechanism: Mapping[str, int]) -> Profile:
    if "first_threshold" in mechanism:
        return thresholded(p, one, other, mechanism["threshold"], mechanism["first_threshold"])
    return thresholded_fresh(p, one, other, mechanism["threshold"])


# --- the probabilistic notion, by its definition ----------------------------------------------------------------------


def probabilistic_delta(
    p: Fraction, e_epsilon: Fraction, users: int, per_user: int, items: int, threshold: int, first_threshold: int
) -> Fraction:
    """The largest probability, over all logs, of an output whose ratio to some neighbour's is not within [e^-ε, e^ε].

    A log is what its users keep: up to `per_user` of `items` items each. Neighbours replace one user's items.
    """
    neighbours: dict[Histogram, set[Histogram]] = {}
    for log_ in combinations_with_replacement(_kept_sets(items, per_user), users):
        counts = _sum(log_)
        if counts == tuple(sorted(counts)):  # the names of the items do not matter
            neighbours.setdefault(counts, set()).update(_neighbours(log_, per_user))
    outputs = _values(p, users + 1, threshold, first_threshold)
    return max(_improper(outputs, e_epsilon, counts, around) for counts, around in neighbours.items())


def improper_probability(
    p: Fraction, e_epsilon: Fraction, kept: Sequence[Kept], per_user: int, threshold: int, first_threshold: int
) -> Fraction:
    """The same for one log, given as what each user keeps: 1 or 0 for each item."""
    outputs = _values(p, len(kept) + 1, threshold, first_threshold)
    return _improper(outputs, e_epsilon, _sum(kept), _neighbours(kept, per_user))


def _kept_sets(items: int, per_user: int) -> list[Kept]:
    return [kept for kept in product((0, 1), repeat=items) if sum(kept) <= per_user]


def _neighbours(kept: Sequence[Kept], per_user: int) -> set[Histogram]:
    counts = _sum(kept)
    return {
        tuple(c - g + n for c, g, n in zip(counts, gone, new, strict=True))
        for gone, new in product(set(kept), _kept_sets(len(counts), per_user))
    }


def _sum(kept: Iterable[tuple[int, ...]]) -> Histogram:
    return tuple(map(sum, zip(*kept, strict=True)))


def _values(p: Fraction, largest: int, threshold: int, first_threshold: int) -> list[list[Fraction]]:
    """[count][output]: not published, each value from the threshold on, and all from `largest` on together."""
    end = max(largest, threshold)
    table = []
    for count in range(largest + 1):
        if count < first_threshold:
            table.append([ONE] + [Fraction(0)] * (end - threshold + 1))
        else:
            values = [probability(p, value - count) for value in range(threshold, end)]
            table.append([1 - tail(p, threshold - count), *values, tail(p, end - count)])
    return table


def _improper(
    outputs: list[list[Fraction]], e_epsilon: Fraction, counts: Histogram, neighbours: Iterable[Histogram]
) -> Fraction:
    total = Fraction(0)
    for output in product(range(len(outputs[0])), repeat=len(counts)):
        here = prod((outputs[c][o] for c, o in zip(counts, output, strict=True)), start=ONE)
        if here and any(
            not here <= e_epsilon * there <= e_epsilon**2 * here
            for there in (
                prod((outputs[c][o] for c, o in zip(other, output, strict=True)), start=ONE) for other in neighbours
            )
        ):
            total += here
    return total
