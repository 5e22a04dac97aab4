"""Formulas as the papers print them, for continuous noise: what ours are compared with."""

from math import exp, log


def zealous_probabilistic_delta(
    scale: float, per_user: int, users: int, threshold: float, first_threshold: int = 1
) -> float:
    """Theorem 3 of Götz et al. with "noisy > τ'": the δ of their Table 1."""
    return users * per_user / (2 * first_threshold) * exp((first_threshold - threshold) / scale)


def zealous_indistinguishable_delta(scale: float, per_user: int, threshold: float) -> float:
    """Theorem 2 of Götz et al. with erratum Z1 (the form that reproduces Table 1), for "noisy > τ'"."""
    return per_user / 2 * exp((per_user - threshold) / scale)


def zealous_impossibility_domain(
    users: int, per_user: int, epsilon: float, upper: float, lower: float, accuracy: float
) -> float:
    """Theorem 1 of Götz et al. with erratum Z2: the smallest domain over which no ε-DP histogram is accurate.

    `upper` = τ+ξ, `lower` = τ−ξ, `accuracy` = c.
    """
    return users * per_user * (2 * exp(epsilon * upper) / (accuracy * upper) + 1 / (lower + 1))


def korolova_alpha(selection_scale: float, threshold: float) -> float:
    return max(exp(1 / selection_scale), 1 + 1 / (2 * exp((threshold - 1) / selection_scale) - 1))


def korolova_epsilon(
    queries: int, clicks: int, selection_scale: float, threshold: float, count_scale: float, click_scale: float | None
) -> float:
    """ε of Korolova et al.: d ln α + d/b_q + c/b_c."""
    published = queries * log(korolova_alpha(selection_scale, threshold)) + queries / count_scale
    return published + (clicks / click_scale if click_scale else 0.0)


def korolova_delta(selection_scale: float, queries: int, threshold: float) -> float:
    """δ of Korolova et al.: (d/2)·e^((d−K)/b)."""
    return queries / 2 * exp((queries - threshold) / selection_scale)
