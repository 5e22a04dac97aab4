"""Optimal partition selection (Desfontaines, Voss, Gipson and Mandayam 2022): how likely a count may be shown to exist.

Where one user changes one count by one, an item of n users may be named with a probability π(n) that grows as fast as
(ε,δ) allows, and no faster: no other way of naming items by their own counts names any of them more often.
docs/guarantees/votes.md proves what is used here.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from searchveil.errors import InputError
from searchveil.privacy.intervals import context, exactly, scaled

GUARD_BITS = 128
MOST = 1 << 15  # users that an item may need


@dataclass(frozen=True)
class NamingChance:
    """π(0) = 0, π(n+1) = min(e^ε π(n) + δ, 1 − e^(−ε)(1 − π(n) − δ), 1), for a change of one count by one."""

    epsilon: Fraction
    delta: Fraction

    def bounds(self, n: int, bits: int) -> tuple[int, int]:
        """Of π(n)·2^bits, for an n that is not certain."""
        return _uncertain(self.epsilon, self.delta, bits)[n]

    @property
    def certain(self) -> int:
        """The smallest n with π(n) = 1."""
        return len(_uncertain(self.epsilon, self.delta, 64))

    def needed(self, chance: float) -> int:
        """The smallest n with π(n) of about this at least."""
        lows = (low for low, _ in _uncertain(self.epsilon, self.delta, 64))
        return next((n for n, low in enumerate(lows) if low >= chance * (1 << 64)), self.certain)


@lru_cache(maxsize=32)
def _uncertain(epsilon: Fraction, delta: Fraction, bits: int) -> list[tuple[int, int]]:
    """π(0), π(1), … as long as they are below 1."""
    # An error grows by e^ε in each step, but in all by no more than what takes π from δ to 1.
    small = delta.denominator.bit_length() - delta.numerator.bit_length()
    iv = context(bits + GUARD_BITS + 2 * max(0, small))
    up, down, step = iv.exp(exactly(iv, epsilon)), iv.exp(-exactly(iv, epsilon)), exactly(iv, delta)
    chance = iv.mpf(0)
    found: list[tuple[int, int]] = []
    while chance.a < 1:
        if len(found) == MOST:
            raise InputError(
                f"an item would need more than {MOST:,} users",
                parameter="epsilon",
                value=float(epsilon),
                instead="choose a larger epsilon or delta",
            )
        found.append(scaled(chance, bits))
        fast, slow = up * chance + step, 1 - down * (1 - chance - step)
        chance = iv.mpf([min(fast.a, slow.a, 1), min(fast.b, slow.b, 1)])
    return found
