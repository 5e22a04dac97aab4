"""A release: the tables that may be handed out, with the plan whose guarantee they carry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.extras import require_package
from searchveil.items.pool import PUBLIC_LIST, QueryPool
from searchveil.privacy.guarantee import Guarantee
from searchveil.publish.plan import Plan

if TYPE_CHECKING:
    import pandas
    import polars

    from searchveil.privacy.ledger import Entry


@dataclass(frozen=True)
class Record:
    """The folder that a release was read from: its guarantee.json, and the file of each table."""

    folder: Path
    written: Mapping[str, Any]  # guarantee.json as it stands there
    files: Mapping[str, Path]  # by the name of the table, the main one first
    rows: Mapping[str, int]  # by the name of the file
    date: str


@dataclass(frozen=True)
class Release:
    """What may be handed out: the tables, and the plan whose guarantee they carry.

    >>> release = sv.Zealous(epsilon=100, delta=1e-6).release(log)
    >>> release.to_pandas()["query"].tolist()
    ['news', 'weather']
    >>> sv.Release.read(release.write(folder / "out")).guarantee.epsilon
    100
    """

    tables: Mapping[str, pa.Table]
    plan: Plan
    entry: "Entry | None" = field(default=None, compare=False)
    record: Record | None = field(default=None, compare=False)  # of a release that was read from a folder
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # JSON files beside the tables, by name

    @classmethod
    def read(cls, folder: "str | Path | Release") -> "Release":
        """The release in a folder, whose files are those that were written: their checksums are compared.

        A table is loaded when it is first asked for. A release that is none of a folder is answered as it is.
        """
        if isinstance(folder, Release):
            return folder
        from searchveil.publish.reading import read_folder

        return read_folder(Path(folder))

    @property
    def table(self) -> pa.Table:
        """The main table, in a release of one table the only one."""
        return next(iter(self.tables.values()))

    @property
    def guarantee(self) -> Guarantee:
        return self.plan.guarantee

    @property
    def source(self) -> str:
        """What to call it in a message."""
        return "the release" if self.record is None else str(self.record.folder)

    def to_pandas(self, table: str | None = None) -> "pandas.DataFrame":
        """The main table, or another one by its name, as a DataFrame."""
        return self._named(table).to_pandas()

    def to_polars(self, table: str | None = None) -> "polars.DataFrame":
        """The main table, or another one by its name, as a Polars DataFrame."""
        require_package("polars")
        import polars

        frame = polars.from_arrow(self._named(table))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def _named(self, table: str | None) -> pa.Table:
        if table is None:
            return self.table
        if table not in self.tables:
            raise InputError(f"{self.source} has no table '{table}'; it has {', '.join(self.tables)}")
        return self.tables[table]

    def _repr_html_(self) -> str:
        """In a notebook: what was published, what is promised, and the first rows."""
        from searchveil.publish.notebook import paragraph, table_of

        rows = f"{self.table.num_rows:,} row{'' if self.table.num_rows == 1 else 's'}"
        title = f"{self.plan.item} by {self.plan.method}: {rows}"
        return paragraph(title, bold=True) + paragraph(str(self.guarantee)) + table_of(self.table)

    def load(self, engine: Engine) -> dict[str, ir.Table]:
        """The tables inside the engine, the main one first; Parquet files are read where they lie."""
        files = {} if self.record is None else self.record.files
        return {
            name: engine.read_parquet([str(files[name].resolve())])
            if name in files and files[name].suffix == ".parquet"
            else engine.load(self.tables[name])
            for name in self.tables
        }

    def write(self, folder: str | Path, *, format: str = "parquet") -> Path:
        """Write the release folder completely or not at all, then tell the ledger that the reservation was used."""
        from searchveil.publish.folder import write_folder

        path = write_folder(self, Path(folder), format)
        if self.entry is not None:
            self.entry.written(path)
        return path

    def pool(self, out: str | Path) -> QueryPool:
        """The published queries as a public pool in the file `out`; what the release cost stays to be added up.

        A pool counts as public, and what was published without protection is no reason to call the log's texts that.
        """
        if not self.guarantee.is_private:
            raise InputError(
                f"{self.source} is not differentially private, so its queries cannot be a pool that counts as public",
                instead="name a release that is, or a list of public queries with " + PUBLIC_LIST,
            )
        return QueryPool.from_table(self.table, out, self.source)
