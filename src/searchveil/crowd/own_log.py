"""A person's own log and the state of its jobs, in one SQLite file on this person's machine."""

import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

from searchveil.crowd.artifacts import Search, kind_named
from searchveil.crowd.jobs import Job
from searchveil.crowd.tokens import Request
from searchveil.errors import InputError
from searchveil.private import close_to_others, make_private
from searchveil.scratch import Scratch

Answer = Literal["always", "ask", "never"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS search (
    id INTEGER PRIMARY KEY, query TEXT NOT NULL, time REAL, url TEXT, rank INTEGER,
    UNIQUE (query, time, url, rank));
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS consent (job TEXT PRIMARY KEY, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS job (id TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS run (
    job TEXT PRIMARY KEY, report_tokens TEXT NOT NULL, randomness_tokens TEXT NOT NULL, done INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY, job TEXT NOT NULL, artifact TEXT NOT NULL, typed TEXT NOT NULL, heads INTEGER NOT NULL,
    report BLOB, sent INTEGER NOT NULL DEFAULT 0);
"""

# Search pages: host, path, and what the query is called in the address.
SEARCH_PAGES = [
    (re.compile(host), re.compile(path), name)
    for host, path, name in (
        (r"(www\.)?google\.(com?\.)?[a-z]{2,3}", r"/search", "q"),
        (r"(www\.|cn\.)?bing\.com", r"/search", "q"),
        (r"((www|html|lite)\.)?duckduckgo\.com", r"/(html/|lite/)?", "q"),
        (r"([a-z.]+\.)?search\.yahoo\.com", r"/search.*", "p"),
        (r"search\.brave\.com", r"/search", "q"),
        (r"(www|eu|us)\.startpage\.com", r"/(sp|do)/(d?search)", "query"),
        (r"www\.ecosia\.org", r"/search", "q"),
        (r"(www|lite)\.qwant\.com", r"/", "q"),
        (r"(www\.)?(yandex|ya)\.[a-z.]{2,6}", r"/search/?", "text"),
        (r"www\.baidu\.com", r"/s", "wd"),
        (r"(www\.)?kagi\.com", r"/search", "q"),
        (r"([a-z-]+\.)?(m\.)?wikipedia\.org", r"/w/index\.php", "search"),
    )
]
FIREFOX = "SELECT p.url, v.visit_date / 1e6 FROM moz_historyvisits v JOIN moz_places p ON p.id = v.place_id ORDER BY 2"
# Chromium counts from the year 1601.
CHROMIUM = "SELECT u.url, v.visit_time / 1e6 - 11644473600 FROM visits v JOIN urls u ON u.id = v.url ORDER BY 2"


class Entry(NamedTuple):
    id: int
    search: Search


class OwnLog:
    """Nothing in it leaves the machine but by a job that its owner agreed to."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        """`durable` waits for the disk, so that a run goes on where it was even after the power failed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        make_private(path)
        self.path = path
        try:
            self.file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self.file.execute("PRAGMA journal_mode = WAL")
            self.file.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
            self.file.execute("PRAGMA secure_delete = ON")  # what is deleted is gone
            self.file.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise InputError(f"{path} cannot be used as a log: {error}") from error
        close_to_others(path)

    def close(self) -> None:
        self.file.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self.file.execute("BEGIN IMMEDIATE")
            yield self.file
            self.file.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise InputError(f"{self.path} cannot be written, and nothing was changed: {error}") from error
        finally:
            if self.file.in_transaction:  # a disk that is full has ended it by itself
                self.file.execute("ROLLBACK")

    # --- settings ---

    def get(self, name: str) -> str | None:
        row = self.file.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set(self, name: str, value: str) -> None:
        self.file.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, value))

    @property
    def paused(self) -> bool:
        return self.get("paused") == "yes"

    def pause(self, paused: bool) -> None:
        self.set("paused", "yes" if paused else "no")

    # --- searches ---

    def add(self, searches: Iterable[Search]) -> int:
        """How many were new. While paused nothing is taken in."""
        if self.paused:
            raise InputError("the log is paused, so nothing was taken in; resume it first")
        with self.transaction() as file:
            before = file.total_changes
            for one in searches:
                # NULLs are never equal to each other, so UNIQUE alone would let a row without a time in twice.
                file.execute(
                    "INSERT INTO search (query, time, url, rank) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM "
                    "search WHERE query = ?1 AND time IS ?2 AND url IS ?3 AND rank IS ?4)",
                    tuple(one),
                )
            return file.total_changes - before

    def entries(self, containing: str = "") -> list[Entry]:
        """In the order of time; `containing` searches queries and addresses."""
        rows = self.file.execute(
            "SELECT id, query, time, url, rank FROM search WHERE instr(lower(query || ' ' || coalesce(url, '')), ?) "
            "ORDER BY time, id",
            (containing.lower(),),
        )
        return [Entry(row[0], Search(*row[1:])) for row in rows]

    def searches(self) -> list[Search]:
        return [entry.search for entry in self.entries()]

    def delete(self, id: int | None) -> int:
        """One entry, or all of them with None, along with what waits to be sent; how many went."""
        with self.transaction() as file:
            if id is None:
                file.execute("DELETE FROM outbox")
                file.execute("UPDATE run SET done = 1, report_tokens = '', randomness_tokens = ''")
                gone = file.execute("DELETE FROM search").rowcount
            else:
                gone = file.execute("DELETE FROM search WHERE id = ?", (id,)).rowcount
                for (job,) in file.execute("SELECT job FROM run").fetchall():
                    self._withdraw(file, job)
        self.file.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log of changes would keep it
        return gone

    def _withdraw(self, file: sqlite3.Connection, job: str) -> None:
        """Take out of a job's outbox what the searches that are left do not give; what was sent loses its text."""
        left, repeats = self._given(file, job)
        done, asked = file.execute("SELECT done, randomness_tokens FROM run WHERE job = ?", (job,)).fetchone()
        rows = file.execute(
            "SELECT id, artifact, typed, sent FROM outbox WHERE job = ? AND artifact != '' ORDER BY sent DESC, id",
            (job,),
        ).fetchall()
        gone = []
        for id, text, typed, sent in rows:
            if left[text, typed] <= 0:
                gone.append((id, sent))
            elif repeats:
                left[text, typed] -= 1
        for id, sent in gone:
            if done and not sent:
                file.execute("DELETE FROM outbox WHERE id = ?", (id,))
            else:  # before its reports are made, a run has a token for each row
                blank = "UPDATE outbox SET artifact = '', typed = '', report = NULL, heads = ? WHERE id = ?"
                file.execute(blank, (sent, id))
        if gone and not done:  # these tokens may have been spent on the old questions
            fresh = Request.fresh(len(Request.from_text(asked).nonces)).to_text()
            file.execute("UPDATE run SET randomness_tokens = ? WHERE job = ?", (fresh, job))

    def _given(self, file: sqlite3.Connection, name: str) -> tuple[Counter[tuple[str, str]], bool]:
        """What a job takes from the searches that are there, and whether it counts repetitions."""
        row = file.execute("SELECT document FROM job WHERE id = ?", (name,)).fetchone()
        try:
            job = Job.from_text("" if row is None else row[0])
        except InputError:  # of another version: nothing of it is sent any more
            return Counter(), False
        found = kind_named(job.artifact).extract(self.searches(), job.domains)
        return Counter((one.text, job.spelling(one.typed)) for one in found), job.policy.per_artifact

    # --- consent ---

    def consent(self, job: str) -> Answer:
        row = self.file.execute("SELECT answer FROM consent WHERE job = ?", (job,)).fetchone()
        return "ask" if row is None else row[0]

    def set_consent(self, job: str, answer: Answer) -> None:
        if answer not in ("always", "ask", "never"):
            raise InputError(f"an answer is always, ask or never, not '{answer}'")
        self.file.execute("INSERT OR REPLACE INTO consent VALUES (?, ?)", (job, answer))

    def history(self) -> list[tuple[str, str, bool]]:
        """(job, artifact, whether it has arrived) of all that was sent, but for what was deleted since."""
        rows = self.file.execute("SELECT job, artifact, sent FROM outbox WHERE heads AND artifact != '' ORDER BY id")
        return [(row[0], row[1], bool(row[2])) for row in rows]


def read_history(path: Path) -> list[Search]:
    """The searches in the history file of a Firefox (places.sqlite) or a Chromium (History)."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    with Scratch() as folder:
        # A browser that runs holds its file locked; a copy does not disturb it.
        for beside in ("", "-wal"):
            if Path(f"{path}{beside}").exists():
                shutil.copy(f"{path}{beside}", folder / f"history{beside}")
        try:
            with closing(sqlite3.connect(folder / "history")) as file:
                tables = {row[0] for row in file.execute("SELECT name FROM sqlite_master")}
                statement = FIREFOX if "moz_places" in tables else CHROMIUM if "visits" in tables else None
                if statement is None:
                    raise InputError(f"{path} is neither a history of Firefox nor one of Chromium")
                visits = file.execute(statement).fetchall()
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path} is neither a history of Firefox nor one of Chromium") from error
    found = (_search_in(url, time) for url, time in visits)
    return [one for one in found if one is not None]


def _search_in(url: str, time: float | None) -> Search | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:  # an address that is none
        return None
    for known, path, name in SEARCH_PAGES:
        if known.fullmatch(host) and path.fullmatch(parts.path):
            query = parse_qs(parts.query).get(name, [""])[0].strip()
            return Search(query, time) if query else None
    return None
