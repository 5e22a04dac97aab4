"""The hint for a missing package names a command that works, however searchveil was installed."""

import json
from pathlib import Path
from typing import Any

import pytest

from searchveil import extras
from searchveil.errors import InputError


class Installed:
    """The metadata of an installed package."""

    def __init__(self, url: dict[str, Any] | None) -> None:
        self.url = url
        self.requires = ["numpy>=2", 'altair<7,>=6; extra == "lab"', "pyspark>=4; extra == 'spark'"]

    def read_text(self, name: str) -> str | None:
        return None if self.url is None else json.dumps(self.url)


def hint(monkeypatch: pytest.MonkeyPatch, url: dict[str, Any] | None) -> str:
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(url))
    monkeypatch.setattr(extras, "_pip", lambda: "pip install")
    return extras.install_command("lab")


def test_from_a_folder_that_is_still_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    url = folder.as_uri()
    assert hint(monkeypatch, {"url": url, "dir_info": {}}) == f"pip install '{folder}[lab]'"
    assert hint(monkeypatch, {"url": url, "dir_info": {"editable": True}}) == f"pip install -e '{folder}[lab]'"


@pytest.mark.parametrize(
    "url",
    [None, {"url": "file:///gone", "dir_info": {}}, {"url": "file:///w/searchveil-1.whl", "archive_info": {}}],
    ids=["from an index", "from a folder that has gone", "from a wheel"],
)
def test_from_anywhere_else_the_packages_are_named(url: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hint(monkeypatch, url) == "pip install 'altair<7,>=6'"


def test_the_packages_named_are_those_of_the_extra() -> None:
    assert {name.split(">")[0].split("<")[0] for name in extras.packages_of("lab")} >= {"altair", "ir-measures"}


def test_nothing_is_said_where_nothing_is_missing() -> None:
    extras.require_extra("lab", "json", what="the lab's tools are not installed")
    with pytest.raises(InputError, match=r"not installed \(no_such_module missing\); type: .* install"):
        extras.require_extra("lab", "json", "no_such_module", what="the lab's tools are not installed")
