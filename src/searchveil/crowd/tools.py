"""What the crowd needs that does not come with the package itself."""

from searchveil.extras import require_extra

TOOLS = ("starlette", "uvicorn", "httpx", "sqlalchemy", "pyhpke", "rbcl", "gmpy2")


def check_tools() -> None:
    """Find out before any work whether it is installed."""
    require_extra("crowd", *TOOLS, what="the crowd's tools are not installed")
