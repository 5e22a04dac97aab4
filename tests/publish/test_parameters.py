"""Parameters are declared once: checks, text forms, keys of experiment files and docs/methods.md agree with them."""

import ast
import subprocess
import sys
from dataclasses import fields
from math import inf, nan, nextafter
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import searchveil as sv
from searchveil.cli.methods_page import REWRITE, page
from searchveil.errors import InputError, SearchveilError, Text, in_python, in_toml, setting
from searchveil.items.pool import QueryPool
from searchveil.publish import METHODS, build, method_named
from searchveil.publish.mechanism import Mechanism
from searchveil.publish.parameters import Parameter, parameters_of

ROOT = Path(__file__).parents[2]
EVERY = [(name, one) for name in METHODS for one in parameters_of(method_named(name))]
NUMBERS = [(name, one) for name, one in EVERY if one.kind in ("number", "integer")]
EXACT = {name: {"epsilon": 1.0, "delta": 0.1} for name in METHODS} | {
    "sampling": {"delta": 0.1},
    **{name: {} for name in METHODS if name.startswith("k-")},
}


def called(value: object) -> str | None:
    return f"{value.name}" if isinstance(value, Parameter) else None


# --- what is declared -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_every_parameter_is_declared_in_its_dataclass(name: str) -> None:
    mechanism = method_named(name)
    declared = parameters_of(mechanism)
    assert [one.name for one in declared] == [field.name for field in fields(mechanism)]
    for one in declared:
        assert one.declared.help.endswith("."), one.name
        assert one.kind != "other", one.name
    assert build(name, mechanism.example).plan(1000).guarantee.notion == mechanism.notions[0]


@pytest.mark.parametrize(("name", "one"), EVERY, ids=called)
def test_a_parameter_is_data_for_a_form(name: str, one: Parameter) -> None:
    data = one.to_json()
    assert set(data) == {"name", "type", "required", "default", "help", "choices", "range", "unit", "symbol"}
    if one.required:
        assert method_named(name).example[one.name] is not None
    if one.kind == "choice":
        assert data["default"] is None or data["default"] in data["choices"]


@pytest.mark.parametrize(("name", "one"), NUMBERS, ids=called)
def test_a_number_outside_its_range_is_refused_and_its_ends_are_not(name: str, one: Parameter) -> None:
    limits = one.declared
    step = (lambda value, to: value + (1 if to > 0 else -1)) if one.kind == "integer" else nextafter
    wrong: list[Any] = [nan, inf, -inf, "many", True]
    right: list[Any] = []
    for end, out, included in (
        (limits.least, -inf, True),
        (limits.most, inf, True),
        (limits.above, -inf, False),
        (limits.below, inf, False),
    ):
        if end is not None:
            wrong.append(step(end, out) if included else end)
            right.append(end if included else step(end, -out))
    if one.kind == "integer":
        wrong.append(2.5)
    for value in wrong:
        with pytest.raises(InputError, match=one.name) as refusal:
            build(name, {**EXACT[name], one.name: value})
        assert refusal.value.parameter == one.name
    for value in right:
        one.check(value)


@pytest.mark.parametrize(("name", "one"), [pair for pair in EVERY if pair[1].kind == "choice"], ids=called)
def test_a_word_that_is_no_choice_is_refused(name: str, one: Parameter) -> None:
    with pytest.raises(InputError, match=rf"no {one.name.replace('_', ' ')} 'luck'; there are .* and ") as refusal:
        build(name, {**EXACT[name], one.name: "luck"})
    assert (refusal.value.parameter, refusal.value.value) == (one.name, "luck")


def test_what_a_method_has_not_is_refused_with_those_that_have_it() -> None:
    with pytest.raises(InputError, match=r"^zealous has no policy; methods that have it: weighted$"):
        build("zealous", {"epsilon": 1, "delta": 0.1, "policy": "learned"})
    with pytest.raises(InputError, match=r"^k-query has no luck; it has k$"):
        build("k-query", {"luck": 1})
    with pytest.raises(InputError, match=r"^sampling needs delta; try epsilon=1, delta=0\.5$"):
        build("sampling", {})


# --- text forms -------------------------------------------------------------------------------------------------------


def values_of(one: Parameter) -> st.SearchStrategy[Any]:
    limits = one.declared
    low, high = limits.least or limits.above or 0, limits.most or limits.below or 1000
    numbers = st.floats(low, high, exclude_min=limits.above is not None, exclude_max=limits.below is not None)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "number": numbers,
        "integer": st.integers(int(low), int(high)),
        "flag": st.booleans(),
        "choice": st.sampled_from(one.choices or ("",)),
        "item": st.sampled_from(one.choices or ("",)),
        "text": st.sampled_from(["2024-03-01", "2024-05-31", "it's"]),
        "texts": st.lists(st.sampled_from(["a, b", "(x)", "it's", '"=', "ü\\d"])).map(tuple),
        "pool": st.sampled_from(["pool.parquet", "it's a pool"]).map(lambda path: QueryPool(Path(path))),
    }
    return kinds[one.kind]


@st.composite
def mechanisms(draw: st.DrawFn) -> Mechanism:
    """Any mechanism of any parameters, except tables, which have no text form."""
    name = draw(st.sampled_from(sorted(METHODS)))
    declared = [one for one in parameters_of(method_named(name)) if one.kind != "table"]
    chosen = draw(st.lists(st.sampled_from(declared), unique=True))
    parameters = {one.name: draw(values_of(one)) for one in declared if one.required or one in chosen}
    try:
        return method_named(name)(**parameters)
    except InputError:  # parameters that do not go together
        return build(name, method_named(name).example)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@given(mechanisms())
def test_a_mechanism_is_given_back_by_its_text_forms(mechanism: Mechanism) -> None:
    assert eval(repr(mechanism), {name: getattr(sv, name) for name in sv.__all__}) == mechanism
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryPool, "open", QueryPool)  # there is no such file
        assert sv.method(str(mechanism)) == mechanism
    assert str(mechanism).startswith(mechanism.method)


def test_a_text_form_says_no_more_than_it_must() -> None:
    assert str(sv.Zealous(1, 1e-6, item="query", per_user=5)) == "zealous(epsilon=1, delta=1e-06)"
    assert repr(sv.Weighted(1, 1e-6, counts="score")) == "Weighted(epsilon=1, delta=1e-06, counts='score')"
    assert sv.method(" k-query ") == sv.KQuery()


@pytest.mark.parametrize(
    "text", ["zealous(1, 2)", "zealous(epsilon=", "zealous(epsilon=1)(2)", "zealous(**{})", "zealous(epsilon=f())"]
)
def test_what_is_no_text_of_a_method_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not the text of a method; write for example zealous"):
        sv.method(text)


# --- errors have parts ------------------------------------------------------------------------------------------------


def test_an_error_is_written_as_its_reader_writes_parameters() -> None:
    from searchveil.wording import on_command_line

    with pytest.raises(InputError) as refusal:
        sv.Zealous(1, 1e-6, notion="probabilistic", neighbours="add-remove")
    error = refusal.value
    assert (error.parameter, error.value) == ("neighbours", "add-remove")
    assert error.problem.written(in_python) == "the probabilistic notion is proved for replace-one"
    assert error.instead is not None
    assert error.instead.written(on_command_line) == "add --neighbours replace-one"
    assert str(error).endswith("; add neighbours='replace-one'")
    assert error.written(in_toml).endswith('; add neighbours = "replace-one"')


def test_a_text_in_parts_is_not_fixed_by_accident() -> None:
    with pytest.raises(TypeError, match="added to others, not formatted"):
        f"try {setting('epsilon', 1)}"
    assert isinstance("try " + setting("epsilon", 1) + " or more", Text)


def test_what_a_terminal_should_not_see_is_escaped_in_every_style() -> None:
    error = SearchveilError("a\x1b[2J" + setting("pool", "b\x07"))
    assert "\x1b" not in error.written(in_python) + error.written(in_toml) + str(error)
    assert "\x07" not in error.written(in_toml)


def strings(tree: ast.AST) -> list[ast.Constant]:
    """Texts of the program, not its documentation."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node for node in constants if id(node) not in documentation]


@pytest.mark.slow
def test_only_the_command_line_speaks_of_options() -> None:
    package = ROOT / "src" / "searchveil"
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {node.value!r}"
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] != "cli"
        for node in strings(ast.parse(path.read_text(encoding="utf-8")))
        if any(word.strip("(\"'`").startswith("--") and len(word) > 3 for word in str(node.value).split())
    ]
    assert not found, "say setting('per_user', 5) instead of --per-user 5"


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_of_methods_is_what_the_code_declares() -> None:
    assert (ROOT / "docs" / "methods.md").read_text(encoding="utf-8") == page(), f"type: {REWRITE}"


def test_declarations_are_not_loaded_for_the_first_help() -> None:
    script = "import searchveil.cli.app, sys; print('searchveil.publish.parameters' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "False\n"
