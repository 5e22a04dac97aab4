"""What to type where a package of an extra is missing. It must work however searchveil itself was installed."""

import json
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from urllib.parse import unquote, urlparse

from searchveil.errors import InputError


def require_extra(extra: str, *modules: str, what: str) -> None:
    """Say what to install if one of these modules is missing; `what` begins the sentence."""
    if missing := [module for module in modules if find_spec(module) is None]:
        raise InputError(f"{what} ({', '.join(missing)} missing)", instead=f"type: {install_command(extra)}")


def require_package(name: str) -> None:
    """Of one that belongs to no extra: people who want it have it, mostly."""
    if find_spec(name) is None:
        raise InputError(f"{name} is not installed", instead=f"type: {_pip()} {name}")


def install_command(extra: str) -> str:
    """From the folder that it was installed from, if that is still there; or else the packages themselves.

    searchveil may have come as a wheel that is no longer there or from an index that this machine cannot reach: the
    packages of the extra are what is needed, and they are in the metadata.
    """
    folder, editable = _source_folder()
    if folder is not None:
        return f"{_pip()} {'-e ' if editable else ''}{quote(f'{folder}[{extra}]')}"
    return f"{_pip()} {' '.join(map(quote, packages_of(extra)))}"


def packages_of(extra: str) -> list[str]:
    """The requirements of an extra, as installed metadata has them."""
    try:
        required = distribution("searchveil").requires or []
    except PackageNotFoundError:
        return [f"searchveil[{extra}]"]
    found = []
    for line in required:
        requirement, _, marker = line.partition(";")
        if f"extra == '{extra}'" in marker.replace('"', "'"):
            found.append(requirement.strip())
    return found or [f"searchveil[{extra}]"]


def _source_folder() -> tuple[Path | None, bool]:
    """Where it was installed from (PEP 610), and whether it is used from there."""
    try:
        told = json.loads(distribution("searchveil").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None, False
    if "dir_info" not in told:
        return None, False
    folder = Path(unquote(urlparse(told["url"]).path))
    return (folder if (folder / "pyproject.toml").exists() else None), bool(told["dir_info"].get("editable"))


def _pip() -> str:
    """The pip of this very interpreter: another one on the path would install into another place."""
    here = Path(sys.prefix) / "bin" / "pip"
    found = shutil.which("pip")
    if found is not None and here.exists() and Path(found).samefile(here):
        return "pip install"
    if find_spec("pip") is None and shutil.which("uv") is not None:
        return f"uv pip install -p {quote(sys.executable)}"
    return f"{quote(sys.executable)} -m pip install"
