"""What a joint release promises, and to whom: the plan that every party makes of the same run file."""

from dataclasses import dataclass, field, replace
from typing import Any

from searchveil.collab.agreement import Agreement
from searchveil.items import KEYWORD
from searchveil.log.words import segmentation
from searchveil.privacy import calibrate
from searchveil.privacy.composition import decimal, not_below
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.noise_shares import NoiseShare, Padding, joint_threshold, sum_tail
from searchveil.publish.individual import Individual, TimeUnit
from searchveil.publish.plan import Plan, Selection, Settings, given
from searchveil.publish.spread import smallest_below

PROOF = "docs/collab.md#who-learns-what"
ONE_PARTY = "that every user is in the log of one party alone"


@dataclass(frozen=True, kw_only=True)
class JointSettings(Settings):
    selection: Selection = field()
    parties: int
    collusion: int
    run: str
    padding: Padding
    holds_for: tuple[dict[str, Any], ...] = ()
    sampler: str | None = None
    exposure_limit: float | None = None
    time_unit: TimeUnit | None = None
    selection_delta: float | None = None

    @property
    def noise_below(self) -> dict[str, int]:
        """Of the shares of all parties together, which are more noise than is needed where some may collude."""
        if self.sampler is not None:
            return {}
        scale = self.selection.noise_scale

        def tail(t: int) -> float:
            return sum_tail(scale, self.parties, self.collusion, t)[1] / 2**192

        return {"data": smallest_below(tail)}

    def to_json(self) -> dict[str, Any]:
        return given(
            sampler=self.sampler,
            exposure_limit=self.exposure_limit,
            time_unit=self.time_unit,
            selection_delta=self.selection_delta,
            per_user=self.selection.per_user,
            noise_scale=self.selection.noise_scale,
            second_threshold=self.selection.threshold,
            parties=self.parties,
            collusion=self.collusion,
            padding_epsilon=self.padding.epsilon,
            padding_delta=self.padding.delta,
            run=self.run,
            holds_for=[dict(one) for one in self.holds_for],
        )


def share_of(agreement: Agreement) -> NoiseShare:
    """The noise that one party adds: enough without those of `collusion` others."""
    scale = calibrate.scale_for(agreement.epsilon, agreement.per_user)
    return NoiseShare(scale, len(agreement.parties) - agreement.collusion)


def padding_of(agreement: Agreement) -> Padding:
    """A tenth of ε and of the δ that chooses items, unless the run file says otherwise."""
    epsilon, delta = agreement.padding_epsilon, agreement.padding_delta
    return Padding(
        float(decimal(agreement.epsilon) / 10) if epsilon is None else epsilon,
        float(decimal(selection_delta(agreement)) / 10) if delta is None else delta,
        agreement.per_user,
    )


def selection_delta(agreement: Agreement) -> float:
    """The part of δ by which items are chosen: all of it, but where rows of users are drawn as well."""
    sampler = sampler_of(agreement)
    if sampler is None:
        return agreement.delta
    assert sampler.selection_delta is not None
    return sampler.selection_delta


def sampler_of(agreement: Agreement) -> Individual | None:
    """What draws users' clicks, where the method is sampling: the rate, and how δ is divided."""
    if agreement.method != "sampling":
        return None
    return Individual(
        agreement.delta,
        agreement.epsilon,
        selection_delta=agreement.selection_delta,
        time_unit=agreement.time_unit,
    )


def plan_for(agreement: Agreement, run: str) -> Plan[JointSettings]:
    """Settings and guarantee follow from the run file alone."""
    share, padding = share_of(agreement), padding_of(agreement)
    parties, collusion = len(agreement.parties), agreement.collusion
    sampler = sampler_of(agreement)
    for_items = selection_delta(agreement)
    threshold = joint_threshold(share.scale, for_items, agreement.per_user, parties, collusion)
    guarantee = Guarantee(
        notion="approximate",
        epsilon=agreement.epsilon,
        delta=agreement.delta,
        neighbours="add-remove",
        proof=PROOF,
        assumed_public=("that the log of each party has at least two users", ONE_PARTY),
        unprotected=(
            "from the coordinator: how many items each party has, dummies among them, and how many of these the "
            "parties share",
            "from the coordinator and other parties: when messages come, and so how long a party took to count its log",
        ),
        caveats=(*_caveats(agreement, padding), *(sampler.caveats("user") if sampler is not None else ())),
        trust="parties",
    )
    settings = JointSettings(
        selection=Selection(agreement.per_user, share.scale, threshold),
        parties=parties,
        collusion=collusion,
        run=run,
        padding=padding,
        holds_for=_holds_for(agreement, padding),
    )
    if sampler is None:
        words = segmentation() if agreement.item == KEYWORD.name else None
        return Plan("collab-zealous", agreement.item, settings, guarantee, words=words)
    settings = replace(
        settings,
        sampler="individual",
        exposure_limit=sampler.rate,
        time_unit=sampler.time_unit,
        selection_delta=for_items,
    )
    return Plan("collab-sampling", agreement.item, settings, guarantee, counts="occurrences")


def paid_for(plan: Plan[JointSettings]) -> Guarantee:
    """What a ledger counts: the most that anybody named in the record can see, which is what other parties see.

    With a collusion bound of 0 no promise is made about parties, and the entry covers outsiders alone.
    """
    padding = plan.settings.padding
    epsilon = not_below(decimal(plan.guarantee.epsilon) + decimal(padding.epsilon))
    delta = not_below(decimal(plan.guarantee.delta) + decimal(padding.delta))
    return replace(plan.guarantee, epsilon=epsilon, delta=delta)


def _holds_for(agreement: Agreement, padding: Padding) -> tuple[dict[str, Any], ...]:
    """For whom which numbers hold, and what each sees beside the release."""
    of_parties = {
        "epsilon": not_below(decimal(agreement.epsilon) + decimal(padding.epsilon)),
        "delta": not_below(decimal(agreement.delta) + decimal(padding.delta)),
    }
    nobody: list[dict[str, Any]] = []
    if agreement.collusion:
        nobody = [
            {
                "who": f"up to {agreement.collusion} of the parties together, about the users of the others, "
                "if none of them runs the coordinator",
                **of_parties,
                "sees": "the number of items of each party with dummies among them, and a noisy total for every "
                "blinded item" + ("; how many rows each party drew" if agreement.method == "sampling" else ""),
            }
        ]
    return (
        {"who": "outsiders", "epsilon": agreement.epsilon, "delta": agreement.delta, "sees": "the release"},
        *nobody,
        {
            "who": "the coordinator alone",
            "epsilon": None,
            "delta": None,
            "sees": "the texts of published items without counts; how many blinded items each party has, dummies among "
            "them, and which of these several parties have; no total and no other text",
        },
    )


def _caveats(agreement: Agreement, padding: Padding) -> tuple[str, ...]:
    if agreement.collusion:
        against = (
            f"up to {agreement.collusion} of the {len(agreement.parties)} parties together see more than outsiders "
            f"do: about users of the other parties ε + {padding.epsilon:g} and δ + {padding.delta:g} hold for them"
        )
    else:
        against = "nothing holds against a party: it can take its own share off the noise (collusion = 0)"
    return (
        f"a joint release of {len(agreement.parties)} parties",
        against,
        "the coordinator together with a party learns who holds the published items, and whether others hold an item "
        "that this party claims to hold",
        "parties follow the protocol; nothing holds against one that does not: it can let every item of every party "
        "be published, publish wrong counts and texts, and add less noise",
        "what other parties and the coordinator see is hidden by cryptography, against whom cannot break it",
    )
