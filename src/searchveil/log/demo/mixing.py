"""A fixed scrambling of whole numbers, by which an intent or a result rank always leads to the same words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

UInts = npt.NDArray[np.uint64]


def scramble(numbers: npt.ArrayLike, salt: int = 0) -> UInts:
    """The splitmix64 finaliser: well spread 64-bit numbers, the same for the same (number, salt) for ever."""
    mixed = np.asarray(numbers).astype(np.uint64) + np.array([0x9E3779B97F4A7C15], np.uint64) * np.uint64(salt + 1)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)


def as_fraction(mixed: UInts) -> npt.NDArray[np.float64]:
    """Scrambled numbers as fractions in [0, 1)."""
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53, np.float64)
