"""A comparison of methods as one page that opens without a network and runs no script."""

from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from searchveil.atomic import write_atomically
from searchveil.errors import InputError, setting
from searchveil.lab.comparison import Comparison
from searchveil.wording import on_command_line

MARK = '<meta name="generator" content="searchveil compare">'  # by which an earlier page is known
LOOK = 2000
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def check_page(path: Path) -> None:
    """Find out before any work whether the page may be written there."""
    instead = "choose another " + setting("path", of="report")
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written, because {path.parent} is not a folder", instead=instead)
    if path.is_dir():
        raise InputError(f"{path} is a folder", instead=instead)
    if path.exists() and MARK.encode() not in path.read_bytes()[:LOOK]:
        raise InputError(f"{path} exists and is no earlier comparison", instead=instead + " or remove it first")


def write_page(path: Path, found: Comparison) -> None:
    check_page(path)
    write_atomically(path, page(found))


def page(found: Comparison) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    own = files(__package__)
    return environment.from_string(own.joinpath("comparison.html.jinja").read_text("utf-8")).render(
        mark=MARK,
        policy=POLICY,
        style=own.joinpath("report.css").read_text("utf-8"),
        found=found,
        style_of_options=on_command_line,
        version=version("searchveil"),
        date=datetime.now(UTC).date().isoformat(),
    )
