"""What the lab needs that does not come with the package itself."""

from searchveil.extras import require_extra

TOOLS = ("altair", "vl_convert", "ir_measures", "sklearn")


def check_tools() -> None:
    """Find out before any work whether it is installed."""
    require_extra("lab", *TOOLS, what="the lab's tools are not installed")
