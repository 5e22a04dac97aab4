"""Databases that others on the machine may read: closed when they are opened, and said; other files are left alone."""

from pathlib import Path

import pytest

from searchveil.crowd.own_log import OwnLog
from searchveil.crowd.store import Store
from searchveil.errors import InputError
from searchveil.privacy.ledger import Ledger
from searchveil.private import close_to_others


def mode(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:03o}"


def open_log(path: Path) -> None:
    OwnLog(path).close()


def open_store(path: Path) -> None:
    Store(str(path)).close()


def open_ledger(path: Path) -> None:
    Ledger.open(path, budget_epsilon=1, budget_delta=1e-6)


@pytest.mark.parametrize(
    ("opened", "left"),
    [(open_log, "600"), (open_store, "600"), (open_ledger, "660")],
    ids=["own log", "store", "ledger"],
)
def test_a_database_that_others_may_read_is_closed_to_them(
    opened: object, left: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sqlite"
    opened(path)  # type: ignore[operator]
    assert mode(path) == "600"
    assert capsys.readouterr().err == ""
    path.chmod(0o664)
    opened(path)  # type: ignore[operator]
    assert mode(path) == left
    assert capsys.readouterr().err == (
        f"searchveil: others on this machine could read or write {path}; now they may not\n"
    )
    opened(path)  # type: ignore[operator]
    assert capsys.readouterr().err == ""


def test_what_sqlite_keeps_beside_it_is_closed_too(tmp_path: Path) -> None:
    path, beside = tmp_path / "a.sqlite", tmp_path / "a.sqlite-wal"
    path.touch(0o600)
    beside.touch()
    beside.chmod(0o644)
    close_to_others(path)
    assert mode(beside) == "600"


@pytest.mark.parametrize("opened", [open_log, open_store, open_ledger], ids=["own log", "store", "ledger"])
def test_a_file_named_by_mistake_keeps_its_permissions(opened: object, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,query\n" * 100)
    path.chmod(0o644)
    with pytest.raises(InputError):
        opened(path)  # type: ignore[operator]
    assert mode(path) == "644"


def test_who_may_not_change_that_is_told_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a b.sqlite"
    path.touch()
    path.chmod(0o644)

    chmod = Path.chmod

    def refuse(one: Path, mode: int) -> None:
        if one == path:
            raise PermissionError(1, "Operation not permitted")
        chmod(one, mode)

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(InputError, match=r"Operation not permitted.*chmod go= '.*a b\.sqlite'"):
        close_to_others(path)
