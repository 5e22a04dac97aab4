"""What a release keeps of the log's statistics. One file per measure, each registered by one line here."""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol, cast

from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.lab.view import View


MEASURES = {
    "jensen-shannon": "searchveil.lab.measures.jensen_shannon:JensenShannon",
    "coverage": "searchveil.lab.measures.coverage:Coverage",
    "l1": "searchveil.lab.measures.l1:L1",
    "kl": "searchveil.lab.measures.kl:KL",
    "count-distribution": "searchveil.lab.measures.count_distribution:CountDistribution",
    "count-difference": "searchveil.lab.measures.count_difference:CountDifference",
    "frequent-pairs": "searchveil.lab.measures.frequent_pairs:FrequentPairs",
    "diversity": "searchveil.lab.measures.diversity:Diversity",
    "diff-ratio": "searchveil.lab.measures.diff_ratio:DiffRatio",
    "behaviour": "searchveil.lab.measures.behaviour:Behaviour",
    "classifier": "searchveil.lab.measures.classifier:Classifier",
    "retained-users": "searchveil.lab.measures.retained_users:RetainedUsers",
}


class Measure(Protocol):
    """Its parameters are the fields of a frozen dataclass.

    `needs` names the tables that both views must have; with none, it measures whichever they share.
    """

    @property
    def needs(self) -> tuple[str, ...]: ...

    def measure(self, original: "View", release: "View") -> dict[str, float]: ...


def measure_named(name: str) -> type[Measure]:
    if name not in MEASURES:
        raise InputError(f"no measure '{name}'; there are {', '.join(MEASURES)}")
    return cast("type[Measure]", resolve_name(MEASURES[name]))
