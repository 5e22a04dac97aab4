"""No function of the package has more ways through it than a reader can hold (docs/design.md)."""

from pathlib import Path

import pytest
from radon.complexity import cc_visit

import searchveil

MOST = 12
PACKAGE = Path(searchveil.__file__).parent


@pytest.mark.slow
def test_no_function_is_above_complexity_12() -> None:
    """As radon counts: branches, operators and comprehensions, of a function with those inside it."""
    found = {
        f"{path.relative_to(PACKAGE)}: {one.fullname}": one.complexity
        for path in PACKAGE.rglob("*.py")
        for one in cc_visit(path.read_text(encoding="utf-8"))
        if one.letter != "C"  # of a class, the mean of its methods
    }
    assert len(found) > 1000
    assert {name: number for name, number in found.items() if number > MOST} == {}
