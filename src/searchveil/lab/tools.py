"""What the lab needs that does not come with the package itself."""

from importlib.util import find_spec

from searchveil.errors import InputError

TOOLS = ("altair", "vl_convert", "ir_measures", "markdown_it")


def check_tools() -> None:
    """Find out before any work whether it is installed."""
    if missing := [tool for tool in TOOLS if find_spec(tool) is None]:
        raise InputError(
            f"the lab's tools are not installed ({', '.join(missing)}); type: pip install 'searchveil[lab]'"
        )
