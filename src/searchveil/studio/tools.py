"""What the studio needs that does not come with the package itself."""

from searchveil.extras import require_extra

TOOLS = ("starlette", "uvicorn", "markdown_it", "altair", "vl_convert")


def check_tools() -> None:
    """Find out before any work whether it is installed."""
    require_extra("studio", *TOOLS, what="the studio's tools are not installed")
