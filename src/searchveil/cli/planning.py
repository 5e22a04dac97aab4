"""What `plan` says: the plan, recommended settings, the smallest δ for a wanted output, what to expect."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from searchveil.cli import show
from searchveil.cli.methods import MethodOptions
from searchveil.cli.options import LogOptions
from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.log import SearchLog
    from searchveil.privacy.calibrate import Assumption
    from searchveil.publish.mechanism import Mechanism
    from searchveil.publish.plan import Plan

# Of whom a promise is, only a log can say.
WITHOUT_A_LOG = (
    "A user is whom the log tells apart. Where it knows sessions, cookies or addresses alone, all this is about one of "
    "those: give the log too, or see its unit in `searchveil inspect`."
)


def plan_of(
    how: MethodOptions, reading: LogOptions, log: list[str] | None, users: int | None
) -> "tuple[Plan, dict[str, Any]]":
    """The plan, and what is said beside it."""
    from searchveil.log.summary import WARNING

    assumption, opened = how.assumption(users), None
    if how.wanted:
        opened, how.given["delta"] = _smallest_delta(how, reading, log)
    mechanism = how.build(assumption)  # before a log is read: a wrong option should be told at once
    if log and opened is None:
        opened = reading.read(log)
    planned = mechanism.plan(users if opened is None else opened)
    if opened is not None:
        show.problems(opened)
        opened.engine.close()
    warning = {"warning": WARNING} if opened is not None and planned.figures else {}
    return planned, warning | _beside(mechanism, how, assumption)


def _smallest_delta(how: MethodOptions, reading: LogOptions, log: list[str] | None) -> "tuple[SearchLog, float]":
    """The log, and the smallest δ of sampling that gives what is wanted of it."""
    from searchveil.publish.sampling import Sampling, smallest_exposure

    how.given.setdefault("sampler", "poisson")
    if not log or "delta" in how.given or how.given["sampler"] == "individual":
        raise InputError(
            "--wanted-size and --wanted-recall look for δ of poisson or multinomial sampling: give a log, no --delta"
        )
    fixed = [name for name in ("epsilon", "objective", "solver") if name in how.given]
    if fixed:
        raise InputError(f"the smallest δ for a wanted output does not depend on --{fixed[0]}; leave it out")
    any_delta = replace(how, given=how.given | {"delta": Sampling.example["delta"]})
    mechanism = any_delta.build(None)  # before a log is read, as above
    assert isinstance(mechanism, Sampling)
    free = {name: getattr(mechanism, name) for name in ("sampler", "support", "seconds") if name in how.given}
    opened = reading.read(log)
    with show.steps() as step:
        size, recall = how.wanted.get("wanted_size"), how.wanted.get("wanted_recall")
        found = smallest_exposure(opened, size=size, recall=recall, progress=step, **free)
    return opened, found.delta


def _beside(mechanism: "Mechanism", how: MethodOptions, assumption: "Assumption | None") -> dict[str, Any]:
    """What can be said without a log: recommended settings, needed users, expected rows."""
    from searchveil.publish.expected import forecast
    from searchveil.publish.safelog_click import SafeLogClick

    found: dict[str, Any] = {}
    if how.extras.get("recommend"):
        assert isinstance(mechanism, SafeLogClick)  # no other method has the option
        found["recommended"] = mechanism.recommend()
    found |= forecast(mechanism, assumption)
    if other := found.get("instead"):
        found["instead"] = {"method": str(other[0]), "type": _typed(other[0]), "expected_rows": other[1]}
    return found


def _typed(mechanism: "Mechanism") -> str:
    """What differs from the usual of its method, as options."""
    guided = getattr(mechanism, "guide_share", None) != 0
    return f"--method {mechanism.method}" + ("" if guided else " --guide-share 0")


def print_beside(beside: Mapping[str, Any], unit: str, assumed: str | None) -> None:
    """What was asked for beside the plan itself."""
    if "warning" in beside:
        show.remark(beside["warning"])
    for whose, settings in beside.get("recommended", {}).items():
        named = {"above" if name == "threshold" else name: value for name, value in settings.items()}  # as the option
        told = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in named.items())
        print(f"Recommended ({whose}): {told}")
    if "needed_users" in beside:
        users, held = beside["needed_users"]["users"], beside["needed_users"]["held"]
        print(
            f"An item comes out with probability ½ if about {users:,} {unit}s hold it, of {show.counted(held, 'item')} "
            "each (the others their own alone)."
        )
    if "expected_rows" in beside:
        print(f"Expected to be published if {assumed}: about {show.counted(round(beside['expected_rows']), 'item')}.")
    if "instead" in beside:
        print(f"With {beside['instead']['type']}: about {beside['instead']['expected_rows']:,.0f}.")
