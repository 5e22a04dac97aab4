"""Which results are clicked: how many of a submission, at which ranks, leading to which sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from searchveil.log.demo import codes
from searchveil.log.demo.codes import Ints
from searchveil.log.demo.forms import FORMS
from searchveil.log.demo.mixing import as_fraction, scramble
from searchveil.log.demo.sessions import Submissions

CLICKING, CLICKING_SPREAD = 0.46, 1.5  # mean and concentration of the users' readiness to click
REFINED_CLICKED, KNOWN_CLICKED = 0.5, 1.5  # appeal of a slip or narrowed query, and of a well-known one
FURTHER_CLICK = 0.365  # chance of each further click of a submission
MOST_CLICKS = 30
SAME_SITE = 0.70  # share of further clicks that stay on the site of the first
REFIND = 0.75  # share of clicks on the result that the user has chosen for this query before

# Shares of ranks 1 to 10; the rest lies beyond. Addresses are mostly answered by the first result.
RANK_SHARES = np.array([0.33, 0.135, 0.092, 0.07, 0.06, 0.047, 0.044, 0.036, 0.034, 0.034])
ADDRESS_RANK_SHARES = np.array([0.75, 0.06, 0.03, 0.02, 0.02, 0.01, 0.01, 0.01, 0.01, 0.01])
BEYOND_MEAN = 15

SITES = int(FORMS.capacity[FORMS.address] // FORMS.last_radix[FORMS.address])
SITE_EXPONENT = 0.88  # how fast the popularity of sites falls


@dataclass(frozen=True)
class Clicks:
    """All clicks in order of submission."""

    submission: Ints
    rank: Ints
    site: Ints


def draw_clicks(rng: np.random.Generator, submissions: Submissions, query: Ints, users: int) -> Clicks:
    readiness = rng.beta(CLICKING * CLICKING_SPREAD, (1 - CLICKING) * CLICKING_SPREAD, users)
    form = codes.form_of(query)
    known = (form == FORMS.address) | (form == FORMS.head)
    refined = (codes.spelling_of(query) > 0) | (codes.narrowing_of(query) > 0)
    appeal = np.where(known, KNOWN_CLICKED, 1.0) * np.where(refined, REFINED_CLICKED, 1.0)
    clicked = np.flatnonzero(rng.random(len(query)) < readiness[submissions.user] * appeal)
    number = np.minimum(rng.geometric(1 - FURTHER_CLICK, len(clicked)), MOST_CLICKS)
    submission = np.repeat(clicked, number)
    first = np.repeat(np.cumsum(number) - number, number)
    address = form[submission] == FORMS.address
    usual = as_fraction(scramble(query[submission] + submissions.user[submission], salt=6))
    chance = np.where(rng.random(len(usual)) < REFIND, usual, rng.random(len(usual)))
    rank = _ranks(rng, chance, address)
    # The site depends on the root of the query and the rank, so that everybody finds the same results.
    site = _result_site(query[submission], rank, address)
    stays = rng.random(len(rank)) < SAME_SITE
    return Clicks(submission, rank, np.where(stays, site[first], site))


def _ranks(rng: np.random.Generator, chance: npt.NDArray[np.float64], address: npt.NDArray[np.bool_]) -> Ints:
    ordinary = np.searchsorted(np.cumsum(RANK_SHARES), chance, side="right")
    direct = np.searchsorted(np.cumsum(ADDRESS_RANK_SHARES), chance, side="right")
    rank = 1 + np.where(address, direct, ordinary)
    return np.where(rank > 10, 10 + rng.geometric(1 / BEYOND_MEAN, len(rank)), rank)


def _result_site(query: Ints, rank: Ints, address: npt.NDArray[np.bool_]) -> Ints:
    root = codes.pack(codes.form_of(query), codes.index_of(query))
    block = np.minimum(np.log2(rank) / 1.3, 3)  # neighbouring results are often of one site
    fraction = as_fraction(scramble(root + block.astype(np.int64), salt=7))
    power = 1 - SITE_EXPONENT
    popularity = ((1 + fraction * (float(SITES) ** power - 1)) ** (1 / power)).astype(np.int64)
    found = (scramble(popularity, salt=8) % np.uint64(SITES)).astype(np.int64)
    asked = codes.index_of(query) // FORMS.last_radix[FORMS.address]
    return np.where(address & (rank == 1), asked, found)
