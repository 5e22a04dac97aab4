"""Privacy policies: how many people must share an artifact, and what is promised about what is published.

FT_a and FT_u are fixed thresholds on instances and on users. DP_a and DP_u add noise after opening. ST_u, the default,
is differentially private though nobody adds noise (docs/guarantees/crowd.md#st_u).
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Literal, get_args

from searchveil.errors import InputError, setting
from searchveil.privacy import calibrate
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.sample_threshold import sample_threshold, sample_threshold_delta
from searchveil.publish.plan import Counted

PolicyName = Literal["ST_u", "DP_u", "DP_a", "FT_u", "FT_a"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
USUAL_REPORTS = 1_000  # of a user in a job whose policy needs no contribution bound
MOST_REPORTS = 10_000
MOST_SHARES = 10_000  # that open an artifact: a client's work grows with their number, the server's with its square
DEFAULT_K = 5  # as in the paper's pilot

_SERVER_SEES = (
    "the server sees the exact counts of all that it opens, and the sizes of all groups of reports that stay closed",
    "the server sees who fetches tokens when, and may tell by the time who sent a report",
    "whoever can query the randomness server can test guesses, as often as its limits allow",
)
_COLLUSION = (
    "clients who lie can add shares of their own: s of them lower every threshold by up to s·d, where d is the number "
    "of artifacts per user"
)
_HELD_BACK = (
    "clients who lie can hold back an artifact that they know, with false shares, about (n − k)/2 of n or more; false "
    "shares are not counted"
)
_FALSE_SHARES = (
    "it counts on clients who send true shares: e false shares of an artifact can make its opening depend on one other "
    "client, and then δ is what it would be with T lower by e, near 1 from e = T − k on"
)
_COMPUTATIONAL = "it holds against whoever cannot break the ciphers and pseudorandom functions used"
_INVITATIONS = (
    "whoever kept the members' invitations knows the coins of members without a pass-phrase, and it does not hold "
    "against them"
)


@dataclass(frozen=True)
class Policy:
    """A policy with its numbers. `k` shares open an artifact; a count of `threshold` or more is published."""

    name: PolicyName
    k: int
    per_user: int = USUAL_REPORTS  # d: artifacts of a user, which tokens enforce
    p: float = 1.0  # ST_u: the probability with which a user sends an artifact
    epsilon: float | None = None
    delta: float | None = None
    threshold: int = 0  # DP_a, DP_u: T, which the noisy count must reach
    colluding: int = 0  # ST_u: s, so many lying clients are allowed for, each with all its d tokens

    @property
    def per_artifact(self) -> bool:
        """Whether each instance counts; otherwise each user counts once."""
        return self.name in ("FT_a", "DP_a")

    @property
    def is_private(self) -> bool:
        return self.name in ("ST_u", "DP_a", "DP_u")

    @property
    def noisy(self) -> bool:
        return self.name in ("DP_a", "DP_u")

    @property
    def counts(self) -> Counted:
        return "occurrences" if self.per_artifact else "users"

    @property
    def noise_scale(self) -> float:
        assert self.epsilon is not None
        return calibrate.scale_for(self.epsilon, self.per_user)

    def check(self) -> None:
        """Refuse numbers whose promise does not hold; clients check this too, so a server cannot weaken a job."""
        if self.name not in POLICIES:
            raise InputError(f"no policy '{self.name}'; there are {', '.join(POLICIES)}", parameter="policy")
        if not all(isinstance(one, int) for one in (self.k, self.per_user, self.threshold, self.colluding)):
            raise InputError("k, per_user, threshold and colluding of a policy are whole numbers", parameter="k")
        if not 2 <= self.k <= MOST_SHARES:
            raise InputError(f"k is 2 to {MOST_SHARES:,} shares, not {self.k:,}", parameter="k", value=self.k)
        if not 1 <= self.per_user <= MOST_REPORTS:
            raise InputError(
                f"a user has 1 to {MOST_REPORTS:,} artifacts in a job, not {self.per_user:,}",
                parameter="per_user",
                value=self.per_user,
            )
        if self.p != 1 and self.name != "ST_u":
            raise InputError(f"only ST_u samples; p is {self.p} for {self.name}", parameter="p")
        if self.colluding < 0 or (self.colluding and self.name != "ST_u"):
            raise InputError(
                f"colluding is a number of clients, 0 or more, of ST_u alone; it is {self.colluding} for {self.name}",
                parameter="colluding",
            )
        if self.is_private:
            self._check_promise()

    def _check_promise(self) -> None:
        if self.epsilon is None or self.delta is None or not (0 < self.epsilon < inf and 0 < self.delta < 1):
            raise InputError(f"{self.name} needs an epsilon above 0 and a delta between 0 and 1", parameter="epsilon")
        if (found := self.exact_delta()) > self.delta:
            raise InputError(
                f"{self.name} with k {self.k} has delta {found:.3g}, and promises {self.delta:g}",
                parameter="k",
                instead="leave out " + setting("k") + ", or raise it",
            )

    def exact_delta(self) -> float:
        """δ at this policy's ε, as docs/guarantees/crowd.md proves it."""
        assert self.epsilon is not None
        if self.name == "ST_u":
            honest = self.k - self.colluding * self.per_user
            return sample_threshold_delta(self.epsilon, self.p, honest, self.per_user) if honest >= 1 else 1.0
        if self.name == "DP_u":
            return calibrate.approximate_delta(self.noise_scale, self.per_user, self.threshold, self.k)
        return calibrate.occurrences_delta(self.noise_scale, self.per_user, self.threshold - (self.k - 1))

    def guarantee(self) -> Guarantee:
        if not self.is_private:
            shared = f"an artifact that {self.k} {'instances' if self.per_artifact else 'users'} have"
            caveats = (
                f"{self.name} publishes {shared}, with its exact count: a fixed threshold is no differential privacy.",
                *(f"{one[0].upper()}{one[1:]}." for one in (_COLLUSION, _HELD_BACK)),
            )
            return replace(
                Guarantee.no_differential_privacy("docs/guarantees/crowd.md#ft_u-and-ft_a", caveats), trust="server"
            )
        assert self.epsilon is not None
        assert self.delta is not None
        proof = "docs/guarantees/crowd.md#st_u" if self.name == "ST_u" else "docs/guarantees/crowd.md#dp_u-and-dp_a"
        return Guarantee(
            notion="approximate",
            epsilon=self.epsilon,
            delta=self.delta,
            proof=proof,
            unprotected=_SERVER_SEES,
            caveats=(
                _COLLUSION,
                _HELD_BACK,
                *([_FALSE_SHARES] if self.noisy else []),
                _COMPUTATIONAL,
                *([_INVITATIONS] if self.name == "ST_u" else []),
            ),
            trust="nobody" if self.name == "ST_u" else "server",
        )


def make_policy(
    name: str,
    *,
    k: int | None = None,
    per_user: int | None = None,
    p: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    colluding: int = 0,
) -> Policy:
    """A policy with the numbers that follow: the smallest k of ST_u, the publishing threshold of DP_a and DP_u."""
    chosen, opening = _named(name), DEFAULT_K if k is None else k
    if chosen != "ST_u":
        _refuse_options_of_sampling(p, colluding)
    if chosen in ("FT_u", "FT_a"):
        if epsilon is not None or delta is not None:
            raise InputError(f"{chosen} promises no epsilon and no delta; leave them out", parameter="epsilon")
        made = Policy(chosen, opening, USUAL_REPORTS if per_user is None else per_user)
    elif epsilon is None or delta is None:
        raise InputError(
            f"{chosen} needs its promise",
            parameter="epsilon",
            instead="add " + setting("epsilon", 1) + " and " + setting("delta", 1e-6) + ", or choose FT_u",
        )
    elif chosen == "ST_u":
        made = _sampled(k, 1 if per_user is None else per_user, p, epsilon, delta, colluding)
    else:
        made = _noisy(chosen, opening, 1 if per_user is None else per_user, epsilon, delta)
    made.check()
    return made


def _named(name: str) -> PolicyName:
    known = {one.lower(): one for one in POLICIES}
    if name.lower() not in known:
        raise InputError(f"no policy '{name}'; there are {', '.join(POLICIES)}", parameter="policy", value=name)
    return known[name.lower()]


def _refuse_options_of_sampling(p: float | None, colluding: int) -> None:
    if p is not None:
        raise InputError("only ST_u samples; leave out " + setting("p"), parameter="p")
    if colluding:
        raise InputError("only ST_u allows for lying clients; leave out " + setting("colluding"), parameter="colluding")


def _sampled(k: int | None, bound: int, p: float | None, epsilon: float, delta: float, colluding: int) -> Policy:
    p = 0.1 if p is None else p
    least = sample_threshold(epsilon, delta, p, bound) + colluding * bound
    return Policy("ST_u", max(2, least) if k is None else k, bound, p, epsilon, delta, 0, colluding)


def _noisy(name: PolicyName, opening: int, bound: int, epsilon: float, delta: float) -> Policy:
    scale = calibrate.scale_for(epsilon, bound)
    if name == "DP_u":
        threshold = calibrate.approximate_threshold(scale, delta, bound, opening)
    else:
        threshold = calibrate.occurrences_threshold(scale, delta, bound) + opening - 1
    return Policy(name, opening, bound, 1.0, epsilon, delta, threshold)
