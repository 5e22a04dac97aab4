"""The file of a ledger: SQLite, created atomically, with seals by which damage shows; ledger.py says what rows mean."""

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from searchveil.errors import InputError, setting
from searchveil.privacy.budget import ANOTHER_FILE, Budget

APPLICATION_ID = 0x5645494C  # "VEIL": tells a ledger from any other SQLite file
SCHEMA_VERSION = 2
BUSY_SECONDS = 60  # how long to wait for another process that is reserving

# ε and δ are kept as text, because they are decimals. The triggers guard against a slip of the hand; the seals, each
# over a row and the seal before it, show a damaged file; neither stops malice. `log` is the fingerprint of the log that
# an entry paid for, under the account's key.
SCHEMA = (
    """CREATE TABLE account (
        budget_epsilon TEXT NOT NULL, budget_delta TEXT NOT NULL,
        neighbours TEXT NOT NULL, composition TEXT NOT NULL, key TEXT NOT NULL, seal TEXT NOT NULL)""",
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, method TEXT NOT NULL, item TEXT NOT NULL,
        parameters TEXT NOT NULL, guarantee TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
        counted_as TEXT NOT NULL, log TEXT, seal TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('reserved', 'written')), out TEXT)""",
    """CREATE TRIGGER budget_is_fixed BEFORE UPDATE ON account WHEN EXISTS (SELECT 1 FROM entry)
        BEGIN SELECT RAISE(ABORT, 'a budget does not change'); END""",
    """CREATE TRIGGER budget_stays BEFORE DELETE ON account
        BEGIN SELECT RAISE(ABORT, 'a budget does not change'); END""",
    """CREATE TRIGGER cost_is_fixed
        BEFORE UPDATE OF id, time, method, item, parameters, guarantee, epsilon, delta, counted_as, log, seal ON entry
        BEGIN SELECT RAISE(ABORT, 'what is spent stays spent'); END""",
    """CREATE TRIGGER spent_stays_spent BEFORE DELETE ON entry
        BEGIN SELECT RAISE(ABORT, 'what is spent stays spent'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


@contextmanager
def open_file(path: Path, trouble: str) -> Iterator[sqlite3.Connection]:
    """A connection for one operation. What SQLite has to complain about, or what is no ledger, becomes one line."""
    try:
        if path.is_file() and path.stat().st_size == 0:  # which SQLite would take for a new one
            raise sqlite3.DatabaseError("malformed: the file is empty")
        address = f"{path.absolute().as_uri()}?mode=rw"  # "rw": a ledger that vanished is not silently begun anew
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as file:
            _set_up(file)
            yield file
    except sqlite3.Error as error:
        raise InputError(f"{trouble}: {_reason(error)}") from error
    except UnicodeDecodeError as error:  # by sqlite3 itself, of a damaged name
        raise InputError(f"{trouble}: {_reason(sqlite3.DatabaseError('malformed text'))}") from error


def _set_up(file: sqlite3.Connection) -> None:
    file.row_factory = sqlite3.Row
    # EXTRA also syncs the folder once the journal is removed: with FULL, a power cut right after a commit could bring
    # the journal back and take the commit away.
    file.execute("PRAGMA synchronous = EXTRA")


def _reason(error: sqlite3.Error) -> str:
    said = " ".join(str(error).split())
    if not said.isprintable():  # a damaged file's own words
        said = "malformed"
    if "locked" in said:
        return f"another process has held it for {BUSY_SECONDS} seconds; try again when that one is done"
    if "readonly" in said or "unable to open" in said:
        return f"{said}; check that it is a file, and that you may write to it and to its folder"
    if "full" in said or "disk I/O" in said or "does not change" in said:
        return said
    return f"damaged, or not a ledger ({said}); restore it from a backup, for a new one would forget what was spent"


def create_file(path: Path, budget: Budget) -> None:
    """Completed under another name and linked to its own: no other process ever sees half of it, or an empty file."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    row = account_row(budget, secrets.token_hex(32))
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(partial, isolation_level=None)) as file:
            _set_up(file)
            file.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                file.execute(statement)
            marks = ", ".join(f":{name}" for name in row)
            file.execute(f"INSERT INTO account ({', '.join(row)}) VALUES ({marks})", row)
            file.execute("COMMIT")
        with suppress(FileExistsError):  # another process was quicker: that one's counts
            os.link(partial, path)
        folder = os.open(path.parent, os.O_RDONLY)
        with suppress(OSError):  # some file systems cannot sync a folder
            os.fsync(folder)
        os.close(folder)
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
        raise InputError(
            f"ledger {path} cannot be created: {reason}",
            parameter="ledger",
            instead="name a " + setting("ledger") + " file where you may write, on a file system with hard links",
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def account_row(budget: Budget, key: str) -> dict[str, str]:
    row = {
        "budget_epsilon": repr(float(budget.epsilon)),
        "budget_delta": repr(float(budget.delta)),
        "neighbours": budget.neighbours,
        "composition": budget.composition,
        "key": key,
    }
    return row | {"seal": seal_of("", row)}


def seal_of(before: str, row: Mapping[str, Any]) -> str:
    """Of what never changes in a row, and of the row before."""
    fixed = {name: value for name, value in row.items() if name not in ("id", "seal", "status", "out")}
    return hashlib.sha256(f"{before} {json.dumps(fixed, sort_keys=True, default=str)}".encode()).hexdigest()


def read_account(file: sqlite3.Connection, path: Path) -> tuple[Budget, str, str]:
    if file.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise InputError(f"{path} is not a searchveil ledger", parameter="ledger", instead=ANOTHER_FILE)
    if file.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
        raise InputError(f"ledger {path} was made by another version of searchveil; use that version")
    made = [row["sql"] for row in file.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")]
    made = [sql for sql in made if not sql.startswith("CREATE TABLE sqlite_")]
    if made != [statement for statement in SCHEMA if statement.startswith("CREATE")]:
        raise sqlite3.DatabaseError("malformed schema")
    rows = [dict(row) for row in file.execute("SELECT * FROM account")]
    if len(rows) != 1 or rows[0]["seal"] != seal_of("", rows[0]):
        raise sqlite3.DatabaseError("malformed budget")
    epsilon, delta, neighbours, composition, key, seal = rows[0].values()
    return Budget(float(epsilon), float(delta), neighbours, composition), key, seal
