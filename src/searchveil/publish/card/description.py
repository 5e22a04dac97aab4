"""The facts that every card repeats, gathered once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from math import expm1

import pyarrow as pa

from searchveil.publish.card.proof import FILE
from searchveil.publish.plan import Plan, Settings
from searchveil.publish.spread import in_words

TO_FILL_IN = "to be filled in by the publisher"
EXACTLY = Context(prec=40, traps=[])  # far more digits than are printed, and infinity where there is no number


@dataclass(frozen=True)
class DataFile:
    """One table as it lies in the folder."""

    table: str
    name: str
    media_type: str
    schema: pa.Schema
    rows: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Description:
    plan: Plan[Settings]
    files: tuple[DataFile, ...]
    date: str
    version: str
    in_ledger: bool
    documents: Mapping[str, str] = field(default_factory=dict)  # JSON files beside the tables, with their SHA-256
    proof: str | None = None  # the text of PROOF.md

    @property
    def proof_in_words(self) -> str:
        """Where the promise is proved, for somebody who has the folder alone."""
        where = f"`{self.plan.guarantee.proof}` in the source of searchveil {self.version}"
        return where if self.proof is None else f"`{FILE}` beside this file, which is also {where}"

    @property
    def title(self) -> str:
        return f"Search log release: {self.plan.item} by {self.plan.method}"

    @property
    def name(self) -> str:
        """The title for machines: letters, digits and hyphens."""
        words = f"search log {self.plan.item} {self.plan.method}".lower()
        return "-".join("".join(letter if letter.isalnum() else " " for letter in words).split())

    @property
    def noise(self) -> str:
        """How noisy the counts are, of the tables that are in the folder."""
        tables = {file.table for file in self.files}
        return in_words({name: below for name, below in self.plan.settings.noise_below.items() if name in tables})

    @property
    def factor(self) -> Decimal:
        """e^ε: how much more likely one user can make any outcome (δ aside)."""
        return EXACTLY.exp(Decimal(repr(float(self.plan.guarantee.epsilon))))

    @property
    def most_it_can_tell(self) -> Decimal:
        """The belief, in percent, to which an even guess about one user can be moved at most (δ aside)."""
        opposite = EXACTLY.exp(Decimal(repr(-float(self.plan.guarantee.epsilon))))
        return EXACTLY.divide(Decimal(100), EXACTLY.add(Decimal(1), opposite))

    @property
    def selection(self) -> str:
        """How selection biases the published counts; exact where the plan says how items were selected."""
        if self.plan.parameters.get("sampler") == "individual":
            return DRAWN_INDIVIDUALLY
        if self.plan.method == "synthetic":
            return INVENTED
        if self.plan.guarantee.notion == "sampling-step":
            return DRAWN
        if self.plan.settings.weights is not None or self.plan.settings.votes is not None:
            return MEASURED_AFRESH if self.plan.settings.noise_below else SELECTION_IN_GENERAL
        selection = self.plan.settings.selection
        if selection is None:
            return SELECTION_IN_GENERAL
        threshold, scale = selection.threshold, selection.noise_scale
        selected = (
            f"A published count is not the true count: discrete Laplace noise of scale {scale:g} was added to every "
            f"count, and an item is in the data only because its noisy count reached {threshold:g}. An item that is "
            "missing may still have been searched for often."
        )
        if selection.count_scale is not None:
            return selected + (
                f" The published count carries fresh noise of scale {selection.count_scale:g} instead, and is "
                "right on average."
            )
        # Beyond its centre discrete Laplace noise has no memory: where it had to bridge a gap to the threshold, it
        # exceeds the gap by a geometric number of mean 1 / expm1(1 / scale), however wide the gap was.
        return selected + (
            f" That same noisy count is published, so low published counts are too high on average: an item whose true "
            f"count is at most {threshold:g} is published, if at all, with a count that averages "
            f"{threshold + 1 / expm1(1 / scale):.4g}, whatever its true count. The further a true count lies above "
            f"{threshold:g}, the smaller the bias."
        )


DRAWN = (
    "A count says how often a pair was drawn for a user, not how often the user clicked it. Pairs were drawn as often "
    "as suits the objective within the limit, so their relative frequencies are not those of the log unless the "
    "objective keeps them. The table rates has the number of draws of every pair that could be drawn: whole, or the "
    "expected number of a Poisson count. Whoever holds the log can check the promise by it."
)
DRAWN_INDIVIDUALLY = (
    "A row is a click of one user that was drawn, and its count says how often it was drawn, not how often the user "
    "clicked. The same number of draws is expected of every user who clicked a pair that may be drawn, "
    "`exposure_limit`, and all her clicks on such pairs are equally likely. So users of few clicks weigh as much as "
    "users of many: multiply a number of users or of draws by `users` / `users_published` to estimate that of all such "
    "users. `users`, `limit` and `total` (the draws that were expected) are such estimates. A click on another pair is "
    "never drawn, however common."
)
INVENTED = (
    "The rows of the data are drawn, not searched: how often something is in them is chance on top of noise. Where "
    "counts are wanted, take those of queries, clicks and transitions, or the numbers of `statistics.json`: sums over "
    "users with Gaussian noise, whose deviation stands beside them. A user of many searches adds less than she has, so "
    "sums are too low on average. A query that is missing may still have been searched for often."
)
MEASURED_AFRESH = (
    "An item is in the data because enough users share it, and noise had a part in that: one that is missing may still "
    "have been searched for often. Counts were measured afterwards with noise of their own, so they are right on "
    "average, but for two rules: none is below 1, and a user of very many items adds less than one to each."
)
SELECTION_IN_GENERAL = (
    "Where noise was added to a count, it is part of the published number. Where items were selected by a noisy count "
    "and that same count is published, low published counts are too high on average. An item that is missing may still "
    "have been searched for often."
)
