"""What the server and the randomness server keep: SQLite by default, PostgreSQL by URL.

Whatever is acknowledged is on the disk. Each token is a primary key, so that nothing counts twice.
"""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine

from searchveil.crowd.report import Report
from searchveil.crowd.tokens import NONCE_BYTES, TokenError
from searchveil.errors import InputError
from searchveil.private import close_to_others, make_private

_META = sa.MetaData()
JOB = sa.Table(
    "job",
    _META,
    sa.Column("id", sa.LargeBinary(16), primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("token_private", sa.LargeBinary(32)),
    sa.Column("closed", sa.Boolean, nullable=False, default=False),
    sa.Column("release", sa.Text),
    sa.Column("created", sa.Float, nullable=False),
)
REPORT = sa.Table(
    "report",
    _META,
    sa.Column("token", sa.LargeBinary(32), primary_key=True),
    sa.Column("job", sa.LargeBinary(16), nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
    sa.Column("grp", sa.LargeBinary(32), nullable=False),
    sa.Column("tag", sa.LargeBinary(32), nullable=False),
    sa.Column("x", sa.LargeBinary(16), nullable=False),
    sa.Column("y", sa.LargeBinary(32), nullable=False),
    sa.Column("primary_field", sa.LargeBinary, nullable=False),
    sa.Column("secondary_field", sa.LargeBinary),  # of jobs that send spellings
    sqlite_with_rowid=False,
)
ISSUED = sa.Table(
    "issued",
    _META,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("member", sa.Text, primary_key=True),
    sa.Column("digest", sa.LargeBinary(32), primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
)
SPENT = sa.Table(
    "spent",
    _META,
    sa.Column("token", sa.LargeBinary(32), primary_key=True),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
)
EPOCH = sa.Table(
    "epoch",
    _META,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("oprf_private", sa.LargeBinary(32)),  # null once destroyed
    sa.Column("token_private", sa.LargeBinary(32)),
    sa.Column("oprf_public", sa.LargeBinary(32), nullable=False),
    sa.Column("token_public", sa.LargeBinary(32), nullable=False),
)
PUBLISHED = sa.Table(
    "published",
    _META,
    sa.Column("job", sa.LargeBinary(16), primary_key=True),
    sa.Column("folder", sa.Text, nullable=False),
)

ACCEPTED, REFUSED, RETRY = 0, 1, 2
BUSY_MS = 30_000  # that SQLite waits for another process


class JobClosedError(InputError):
    """A job was closed after its reports had been checked and before they were written."""


@dataclass(frozen=True)
class StoredJob:
    id: bytes
    document: str
    token_private: bytes | None
    closed: bool
    release: str | None


class Store:
    """One database. Writers of SQLite wait for each other here instead of failing."""

    def __init__(self, url: str) -> None:
        if "://" not in url:
            url = f"sqlite:///{url}"
        if url.startswith("postgresql://"):
            url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        try:
            self.engine: Engine = sa.create_engine(url)
            self.is_sqlite = self.engine.dialect.name == "sqlite"
            file = self.engine.url.database if self.is_sqlite else None
            own = Path(file) if file and file != ":memory:" else None
            if own is not None:
                with suppress(OSError):  # SQLite says what is wrong
                    make_private(own)
            if self.is_sqlite:
                sa.event.listen(self.engine, "connect", _set_up_sqlite)
            _META.create_all(self.engine)
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            said = str(getattr(error, "orig", error)).splitlines()[0]
            raise InputError(f"the database cannot be opened: {said}", parameter="database") from error
        if own is not None:
            close_to_others(own)
        self._lock = threading.Lock()

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is durable when the block ends."""
        with self._lock, self.engine.begin() as connection:
            yield connection

    def overwrite(self) -> bool:
        """Carry changes over into the file and empty the log of changes; False while a reader holds that up."""
        if not self.is_sqlite:
            return True
        with self.write() as connection:
            connection.execute(sa.text("PRAGMA busy_timeout = 100"))  # this is tried again; requests should not wait
            try:
                busy = connection.execute(sa.text("PRAGMA wal_checkpoint(TRUNCATE)")).one()[0]
            finally:
                connection.execute(sa.text(f"PRAGMA busy_timeout = {BUSY_MS}"))
        return int(busy) == 0

    # --- jobs ---

    def add_job(self, id: bytes, document: str, token_private: bytes, now: float) -> None:
        with self.write() as connection:
            connection.execute(
                sa.insert(JOB).values(id=id, document=document, token_private=token_private, closed=False, created=now)
            )

    def jobs(self) -> list[StoredJob]:
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(JOB).order_by(JOB.c.created)).all()
        return [StoredJob(row.id, row.document, row.token_private, row.closed, row.release) for row in rows]

    def close_job(self, id: bytes) -> None:
        """No report is taken any more, and the key of its tokens is forgotten."""
        with self.write() as connection:
            connection.execute(sa.update(JOB).where(JOB.c.id == id).values(closed=True, token_private=None))

    def claim_release(self, id: bytes, folder: str, before: str | None) -> None:
        """Record where a job is released, in the place of `before`: of two that try at once, one is refused."""
        with self.write() as connection:
            free = sa.update(JOB).where((JOB.c.id == id) & JOB.c.release.is_not_distinct_from(before))
            if connection.execute(free.values(release=folder)).rowcount != 1:
                raise InputError(f"job {id.hex()} has been released")

    def publish(self, id: bytes, folder: str) -> None:
        """From now on the server hands out the release of this job to everybody."""
        with self.write() as connection:
            connection.execute(self._insert(PUBLISHED).values(job=id, folder=folder))

    def published(self) -> dict[bytes, Path]:
        with self.engine.connect() as connection:
            return {bytes(row.job): Path(row.folder) for row in connection.execute(sa.select(PUBLISHED))}

    # --- tokens ---

    def issue(self, scope: str, member: str, body: bytes, number: int, limit: int) -> None:
        """Record a batch, or refuse it. The same request again is no further batch: its answer may have been lost."""
        digest = hashlib.sha256(body).digest()
        mine = (ISSUED.c.scope == scope) & (ISSUED.c.member == member)
        with self.write() as connection:
            if not self.is_sqlite:  # one process writes SQLite; several may write to PostgreSQL
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(int(member[:15], 16))))
            rows = connection.execute(sa.select(ISSUED.c.digest, ISSUED.c.number).where(mine)).all()
            if any(row.digest == digest for row in rows):
                return
            left = limit - sum(row.number for row in rows)
            if number > left:
                raise TokenError(f"{number} tokens were asked for, and {left} are left of this member's {limit}")
            connection.execute(sa.insert(ISSUED).values(scope=scope, member=member, digest=digest, number=number))

    def issued(self, scope: str, member: str) -> int:
        mine = (ISSUED.c.scope == scope) & (ISSUED.c.member == member)
        with self.engine.connect() as connection:
            return int(
                connection.execute(
                    sa.select(sa.func.coalesce(sa.func.sum(ISSUED.c.number), 0)).where(mine)
                ).scalar_one()
            )

    def spend(self, scope: str, token: bytes, body: bytes) -> None:
        """A token pays for one request; the same request again is the same one."""
        nonce, digest = token[:NONCE_BYTES], hashlib.sha256(body).digest()
        with self.write() as connection:
            connection.execute(self._insert(SPENT).values(token=nonce, scope=scope, digest=digest))
            found = connection.execute(sa.select(SPENT.c.digest).where(SPENT.c.token == nonce)).scalar_one()
        if found != digest:
            raise TokenError("this token was spent on another request")

    # --- reports ---

    def add_reports(self, reports: Sequence[tuple[bytes, Report, bool]]) -> list[int]:
        """(bytes, report, whether to keep the secondary field) → a status for each, in one durable transaction.

        All of them or, if a job of theirs was closed meanwhile, none: a release must not miss what was acknowledged.
        """
        if not reports:
            return []
        rows: list[dict[str, Any]] = [
            {
                "token": report.token[:NONCE_BYTES],
                "job": report.job,
                "digest": hashlib.sha256(text).digest(),
                "grp": report.group,
                "tag": report.tag,
                "x": report.x.to_bytes(16, "big"),
                "y": report.y.to_bytes(32, "big"),
                "primary_field": report.primary,
                "secondary_field": report.secondary if secondary else None,
            }
            for text, report, secondary in reports
        ]
        with self.write() as connection:
            connection.execute(self._insert(REPORT), rows)
            # From here on this transaction holds the lock that closing a job needs: whoever closes it later, and then
            # reads its reports, sees these.
            jobs = sa.select(JOB.c.closed).where(JOB.c.id.in_({row["job"] for row in rows}))
            if any(connection.execute(jobs.with_for_update(read=True)).scalars()):
                raise JobClosedError("a job was closed")
            found = self._digests(connection, [row["token"] for row in rows])
        return [ACCEPTED if found.get(row["token"]) == row["digest"] else REFUSED for row in rows]

    def _digests(self, connection: Connection, tokens: Sequence[Any]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for i in range(0, len(tokens), 500):
            some = sa.select(REPORT.c.token, REPORT.c.digest).where(REPORT.c.token.in_(tokens[i : i + 500]))
            found.update({bytes(token): bytes(digest) for token, digest in connection.execute(some)})
        return found

    def count_reports(self, job: bytes) -> int:
        with self.engine.connect() as connection:
            counted = sa.select(sa.func.count()).select_from(REPORT).where(REPORT.c.job == job)
            return int(connection.execute(counted).scalar_one())

    def shares(self, job: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes, bytes]]:
        """(group, tag, x, y, token) of all reports of a job, a group at a time; the order within is by x."""
        wanted = (
            sa.select(REPORT.c.grp, REPORT.c.tag, REPORT.c.x, REPORT.c.y, REPORT.c.token)
            .where(REPORT.c.job == job)
            .order_by(REPORT.c.grp, REPORT.c.x, REPORT.c.y)
        )
        with self.engine.connect().execution_options(yield_per=20_000) as connection:
            for part in connection.execute(wanted).partitions():
                yield from part

    def fields(self, tokens: Sequence[bytes]) -> dict[bytes, tuple[bytes, bytes | None]]:
        """The encrypted fields of these reports."""
        found: dict[bytes, tuple[bytes, bytes | None]] = {}
        with self.engine.connect() as connection:
            for i in range(0, len(tokens), 500):
                some = sa.select(REPORT.c.token, REPORT.c.primary_field, REPORT.c.secondary_field).where(
                    REPORT.c.token.in_(tokens[i : i + 500])
                )
                for token, primary, secondary in connection.execute(some):
                    found[bytes(token)] = bytes(primary), None if secondary is None else bytes(secondary)
        return found

    def _insert(self, table: sa.Table) -> Any:
        """Leaves a row that is there already as it is."""
        dialect = sqlite if self.is_sqlite else postgresql
        return dialect.insert(table).on_conflict_do_nothing()


def _set_up_sqlite(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")  # an answer means that it is on the disk
    cursor.execute("PRAGMA secure_delete = ON")  # a destroyed key is overwritten
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    cursor.close()
