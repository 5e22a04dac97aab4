"""What the crowd needs that does not come with the package itself."""

from importlib.util import find_spec

from searchveil.errors import InputError

TOOLS = ("starlette", "uvicorn", "httpx", "sqlalchemy", "pyhpke", "rbcl", "gmpy2")


def check_tools() -> None:
    """Find out before any work whether it is installed."""
    if missing := [tool for tool in TOOLS if find_spec(tool) is None]:
        raise InputError(
            f"the crowd's tools are not installed ({', '.join(missing)}); type: pip install 'searchveil[crowd]'"
        )
