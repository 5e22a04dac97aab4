"""The options that several commands share, in groups, and how their texts become values."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.engine import Engine
    from searchveil.log import SearchLog
    from searchveil.log.normalize import Normalization
    from searchveil.privacy.calibrate import Assumption
    from searchveil.privacy.ledger import Ledger
    from searchveil.publish.mechanism import Mechanism

LogPaths = Annotated[
    list[str], typer.Argument(metavar="LOG...", help="Files of one log; globs work.", show_default=False)
]
OptionalLogPaths = Annotated[
    list[str] | None, typer.Argument(metavar="[LOG]...", help="Files of one log; globs work.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _log(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="The log and its engine")


def _method(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="The method")


def _budget(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="The budget")


@dataclass
class LogOptions:
    """How to read a log, and where to compute."""

    format: Annotated[str, _log("auto, or a format by name (docs/formats.md).")] = "auto"
    column: Annotated[list[str] | None, _log("user=NAME, query=NAME, … for tables of your own.")] = None
    reader_option: Annotated[list[str] | None, _log("NAME=VALUE for one format (docs/formats.md).")] = None
    strict: Annotated[bool, _log("Bad rows are an error.", "--strict")] = False
    normalize: Annotated[
        str, _log("Differences that do not matter: any of case,spaces,unicode,punctuation; or none.")
    ] = "case,spaces,unicode"
    engine: Annotated[str, _log("duckdb or spark.")] = "duckdb"
    master: Annotated[str | None, _log("Spark's master, as in local[2] or spark://host:7077.")] = None
    memory: Annotated[
        str | None, _log("How much the engine may use before it spills, as in 3GB; of Spark, its driver.")
    ] = None
    executor_memory: Annotated[str | None, _log("How much each executor of a Spark cluster gets, as in 8GB.")] = None
    spark_conf: Annotated[list[str] | None, _log("KEY=VALUE, a setting of Spark; again for more.")] = None

    def read(self, paths: Sequence[str], engine: "Engine | None" = None) -> "SearchLog":
        """A log in an engine of its own, or in that of another log with which it is to be compared."""
        from searchveil.log.read import read_log

        normalization = _normalization(self.normalize)  # before an engine starts: a wrong word should be told at once
        return read_log(
            list(paths),
            format=self.format,
            engine=engine or self._open_engine(),
            columns=_pairs(self.column, "--column"),
            options=_pairs(self.reader_option, "--reader-option"),
            strict=self.strict,
            normalization=normalization,
        )

    def _open_engine(self) -> "Engine":
        from searchveil.engine import open_engine

        return open_engine(
            self.engine,
            master=self.master,
            memory=self.memory,
            executor_memory=self.executor_memory,
            spark_conf=_pairs(self.spark_conf, "--spark-conf"),
        )


@dataclass
class MethodOptions:
    """How to publish. An option that the method does not have is an error, not ignored."""

    method: Annotated[
        str,
        _method(
            "weighted, zealous, korolova, safelog-click, safelog-session, sampling, k-query, k-session or k-keyword."
        ),
    ] = "zealous"
    item: Annotated[str | None, _method("keyword, query, pair, click or url.")] = None
    epsilon: Annotated[float | None, _method("ε of the guarantee.")] = None
    delta: Annotated[float | None, _method("δ of the guarantee.")] = None
    per_user: Annotated[str | None, _method("Items kept per user; 'auto' takes the best under --assume.")] = None
    notion: Annotated[str | None, _method("approximate, probabilistic or indistinguishable.")] = None
    neighbours: Annotated[str | None, _method("add-remove or replace-one.")] = None
    users: Annotated[
        int | None, _method("ZEALOUS, probabilistic: the public number of users. plan: instead of a log.")
    ] = None
    first_threshold: Annotated[int | None, _method("ZEALOUS's τ.")] = None
    threshold: Annotated[
        float | None, _method("ZEALOUS: T, publish iff noisy ≥ T. SafeLog: K, publish iff noisy > K.")
    ] = None
    noise_scale: Annotated[float | None, _method("SafeLog: b, instead of ε.")] = None
    queries_per_user: Annotated[int | None, _method("Korolova's d, SafeLog's q_f.")] = None
    clicks_per_user: Annotated[int | None, _method("Korolova's c, SafeLog's c_f; 0 for no clicks.")] = None
    counts: Annotated[str | None, _method("Weighted: users, score or none.")] = None
    count_share: Annotated[float | None, _method("Weighted: the part of the budget that counts take.")] = None
    candidates_per_user: Annotated[int | None, _method("Weighted: items of a user that may be named.")] = None
    policy: Annotated[str | None, _method("Weighted: learned, or formula, which a person can read.")] = None
    counting: Annotated[str | None, _method("Korolova: occurrences or users.")] = None
    variant: Annotated[str | None, _method("Korolova: exact or published. SafeLog sessions: ours or published.")] = None
    candidates: Annotated[str | None, _method("A public table of query and url (csv, tsv, parquet).")] = None
    transitions: Annotated[bool, _method("SafeLog: count query transitions too.", "--transitions")] = False
    transition_candidates: Annotated[str | None, _method("A public table of query and next.")] = None
    domain: Annotated[str | None, _method("SafeLog: pool (pure ε) or pool+log.")] = None
    pool: Annotated[str | None, _method("SafeLog, weighted, sampling: a public pool made by `searchveil pool`.")] = None
    pool_coverage: Annotated[float | None, _method("SafeLog: p_g, for the paper's ε.")] = None
    fresh_counts: Annotated[bool, _method("SafeLog: fresh noise for published counts.", "--fresh-counts")] = False
    at_least: Annotated[int | None, _method("SafeLog's frequency filter; unprotected.")] = None
    personal: Annotated[bool, _method("SafeLog: do not filter what looks personal.", "--personal")] = False
    pattern: Annotated[list[str] | None, _method("SafeLog: also filter queries matching this.")] = None
    sessions_per_user: Annotated[int | None, _method("SafeLog's l_s.")] = None
    queries_per_session: Annotated[int | None, _method("SafeLog's l_q.")] = None
    gap_minutes: Annotated[float | None, _method("SafeLog: silence that ends a session.")] = None
    objective: Annotated[str | None, _method("Sampling: size, frequent, diversity or kl.")] = None
    sampler: Annotated[
        str | None, _method("Sampling: individual, or the paper's programs with poisson or multinomial draws.")
    ] = None
    selection_delta: Annotated[float | None, _method("Sampling: the part of δ that chooses the pairs.")] = None
    time_unit: Annotated[
        str | None, _method("Sampling: second, minute, hour, day or month, to which times are rounded; or none.")
    ] = None
    support: Annotated[float | None, _method("Sampling: from which share of all clicks a pair is frequent.")] = None
    output_size: Annotated[float | None, _method("Sampling: |O| of frequent and kl; half of what fits.")] = None
    seconds: Annotated[float | None, _method("Sampling: time to look for whole numbers.")] = None
    solver: Annotated[
        str | None, _method("Sampling, diversity: best, spe, greedy, lp-rounding or branch-and-bound.")
    ] = None
    noise_counts: Annotated[bool, _method("Sampling: the paper's noise on counts (errata H2).", "--noise-counts")] = (
        False
    )
    noise_epsilon: Annotated[float | None, _method("Sampling: ε′ of that noise.")] = None
    most_change: Annotated[float | None, _method("Sampling: d, by how much a user may move a count.")] = None
    k: Annotated[int | None, _method("k of the k-anonymity methods.", "--k")] = None
    assume: Annotated[str | None, _method("A public guess: users=N,items=N,exponent=X,held=N (items a user has).")] = (
        None
    )

    @property
    def assumption(self) -> "Assumption | None":
        return _assumption(self.assume, self.users)

    def build(self, assumption: "Assumption | None") -> "Mechanism":
        from searchveil.privacy.calibrate import best_per_user, check_delta, check_epsilon
        from searchveil.publish import method_named

        mechanism = method_named(self.method)
        not_parameters = ("method", "assume")
        chosen = {name: value for name, value in vars(self).items() if value is not None and value is not False}
        given = {name: value for name, value in chosen.items() if name not in not_parameters}
        if "pattern" in given:
            given["patterns"] = tuple(given.pop("pattern"))
        known = {field.name: field for field in fields(mechanism)}
        for name in given:
            if name not in known:
                raise InputError(f"{self.method} has no --{name.replace('_', '-')}; leave it out")
        for name, field in known.items():
            if field.default is MISSING and field.default_factory is MISSING and name not in given:
                example = "--epsilon 1 --delta 0.5" if self.method == "sampling" else "--epsilon 1 --delta 1e-6"
                raise InputError(f"{self.method} needs --{name.replace('_', '-')}; try {example}")
        if self.per_user == "auto":
            if assumption is None:
                raise InputError(
                    "--per-user auto needs a public guess; add --assume users=N,items=N,exponent=1,held=30"
                )
            check_epsilon(given["epsilon"])
            check_delta(given["delta"])
            given["per_user"] = best_per_user(
                given["epsilon"], given["delta"], assumption, given.get("neighbours", "add-remove")
            )
        elif self.per_user is not None:
            try:
                given["per_user"] = int(self.per_user)
            except ValueError:
                raise InputError(f"--per-user must be a number or auto, not '{self.per_user}'") from None
        for name in ("candidates", "transition_candidates"):
            if name in given:
                given[name] = _table(given[name])
        if "pool" in given:
            from searchveil.items.pool import QueryPool

            given["pool"] = QueryPool.open(given["pool"])
        return mechanism(**given)


@dataclass
class BudgetOptions:
    """Which account pays."""

    ledger: Annotated[str | None, _budget("The file that keeps this log's account.")] = None
    budget_epsilon: Annotated[float | None, _budget("The ε that the log may spend in all.")] = None
    budget_delta: Annotated[float | None, _budget("The δ that the log may spend in all.")] = None
    budget_neighbours: Annotated[str | None, _budget("add-remove or replace-one, for a new ledger.")] = None
    budget_composition: Annotated[str | None, _budget("basic, or pld for a list of releases fixed in advance.")] = None
    same_log: Annotated[bool, _budget("The ledger's log, though it grew or was corrected.", "--same-log")] = False

    def open(self) -> "Ledger | None":
        given: dict[str, Any] = {
            "budget_epsilon": self.budget_epsilon,
            "budget_delta": self.budget_delta,
            "neighbours": self.budget_neighbours,
            "composition": self.budget_composition,
            "same_log": self.same_log or None,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if self.ledger is None:
            if given:
                raise InputError("a budget and --same-log are for a ledger; add --ledger FILE")
            return None
        from searchveil.privacy.ledger import Ledger

        return Ledger.open(self.ledger, **given)


GROUPS = (LogOptions, MethodOptions, BudgetOptions)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Lets a command take a whole group of options as one parameter."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if hint in GROUPS}
    parameters = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    for group in groups.values():
        group_hints = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=group_hints[field.name]
            )
            for field in fields(group)
        ]

    @wraps(command)
    def unfolded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    unfolded.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    unfolded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return unfolded


def _normalization(text: str) -> "Normalization":
    from searchveil.log.normalize import Normalization

    known = [field.name for field in fields(Normalization)]
    chosen = [] if text == "none" else text.split(",")
    for name in chosen:
        if name not in known:
            raise InputError(f"--normalize {text}: no '{name}'; write any of {','.join(known)}, or none")
    return Normalization(**{name: name in chosen for name in known})


def _assumption(text: str | None, users: int | None) -> "Assumption | None":
    from searchveil.privacy.calibrate import Assumption

    if text is None:
        return None
    given: dict[str, Any] = dict(_pairs(text.split(","), "--assume"))
    if users is not None:
        given.setdefault("users", users)
    if "users" not in given:
        raise InputError(f"--assume {text}: how many users? add users=N or --users N")
    known = {field.name: float if field.name == "exponent" else int for field in fields(Assumption)}
    for name in given:
        if name not in known:
            raise InputError(f"--assume {text}: no '{name}'; there are {', '.join(known)}")
        try:
            given[name] = known[name](given[name])
        except ValueError:
            raise InputError(f"--assume {text}: {name} must be a number, not '{given[name]}'") from None
    return Assumption(**given)


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"{option} {text}: write NAME=VALUE")
        pairs[name] = value
    return pairs


def _table(path: str) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.endswith(".parquet"):
            return pa.parquet.read_table(path)
        separator = "\t" if path.endswith(".tsv") else ","
        return pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=separator))
    except (OSError, pa.ArrowInvalid) as problem:
        raise InputError(f"{path}: {str(problem).splitlines()[0]}") from problem
