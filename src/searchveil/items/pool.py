"""A query pool: public queries that may be published although nobody in the log searched them.

The pool is fixed before the log is looked at and is itself public. It lives in one Parquet file, sorted and compressed;
mechanisms read it inside the engine, so ten million queries never become ten million Python strings.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import ibis.expr.types as ir

from searchveil.atomic import atomic_path
from searchveil.engine import Engine
from searchveil.engine.sql import literal
from searchveil.errors import Blank, InputError, command, setting
from searchveil.items.item import normalize_query
from searchveil.log.normalize import Normalization
from searchveil.log.readers.generic import is_user_column

if TYPE_CHECKING:
    import pyarrow as pa

NOT_A_NOUN = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did do does down
    each even every few for from get go had has have he her here him his how i if in into is it its just know like
    made make many may me might more most much must my no nor not now of off on one only or other our out over own
    said same see she should so some such than that the their them then there these they this those through to too
    two under until up us very was we well were what when where which while who whom whose why will with would yes
    you your
    """.split()
)
PUBLIC_LIST = setting("source", Blank("FILE"), of="pool")
NOT_NOUN_ENDINGS = ("ly", "ing", "ed", "ous", "ful", "ible", "able", "ive", "est", "n't", "'s", "'re", "'ll", "'ve")


@dataclass(frozen=True)
class QueryPool:
    """Distinct queries in a Parquet file with one column, `query`.

    >>> _ = (folder / "queries.txt").write_text("weather\\nnews\\n")
    >>> sv.QueryPool.from_file(folder / "queries.txt", folder / "pool.parquet").size
    2
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    def __repr__(self) -> str:
        return f"QueryPool({str(self.path)!r})"

    def table(self, engine: Engine, normalization: Normalization) -> ir.Table:
        """The pool's queries in normal form, each once."""
        return normalize_query(engine.read_parquet([str(self.path)]).select("query"), normalization).distinct()

    @property
    def size(self) -> int:
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self.path).num_rows)

    @classmethod
    def from_file(cls, source: str | Path, out: str | Path) -> "QueryPool":
        """From a public list: a text file with a query a line, or a CSV, TSV or Parquet file with a column `query`."""
        from searchveil.engine.duckdb import not_a_pattern

        source = Path(source)
        if not source.is_file():
            raise InputError(f"there is no file {source} to make a pool from")
        name = source.name.removesuffix(".gz")
        path = literal(not_a_pattern(str(source)))
        if name.endswith(".parquet"):
            scan = f"from read_parquet({path})"
        elif name.endswith(".csv"):
            scan = f"from read_csv({path}, all_varchar = true, header = true, delim = ',')"
        elif name.endswith(".tsv"):
            as_it_is = "delim = '\t', quote = '', escape = ''"
            scan = f"from read_csv({path}, all_varchar = true, header = true, {as_it_is})"
        else:
            one_column = "columns = {'query': 'VARCHAR'}, delim = '\x01', quote = '', escape = '', header = false"
            scan = f"from read_csv({path}, {one_column})"
        return cls._write(scan, Path(out), str(source))

    @classmethod
    def from_table(cls, table: "pa.Table", out: str | Path, source: str) -> "QueryPool":
        """From the column `query` of a table; `source` is what to call it in a message."""
        return cls._write("from listed", Path(out), source, listed=table)

    @classmethod
    def from_ngrams(cls, source: str | Path, out: str | Path, *, size: int, seed: int = 1) -> "QueryPool":
        """From a frequency list of words or n-grams: lines of a number, then the words, parted by tabs or spaces.

        As the thesis simulates it: n-grams that end in a noun-like word, drawn by frequency, half of them joined with a
        second draw. The seed makes the pool repeatable; it is public, as the pool is.
        """
        if size < 1:
            raise InputError(
                f"a pool needs at least one query, not {size}",
                parameter="size",
                value=size,
                instead="try " + setting("size", 100_000),
            )
        ngrams = list(_noun_like(Path(source)))
        if not any(frequency for frequency, _ in ngrams):
            raise InputError(f"{source} has no n-gram that ends like a noun; each line is a number, then the words")
        texts, weights = [text for _, text in ngrams], list(accumulate(frequency for frequency, _ in ngrams))
        draw = random.Random(seed)  # public randomness about public texts: nothing here protects anyone
        queries: set[str] = set()
        for _ in range(20 * size):  # a short list has only so many different combinations
            parts = draw.choices(texts, cum_weights=weights, k=draw.choice((1, 2)))
            queries.add(" ".join(parts))
            if len(queries) == size:
                break
        import pyarrow as pa

        return cls.from_table(pa.table({"query": sorted(queries)}), out, str(source))

    @classmethod
    def open(cls, path: str | Path) -> "QueryPool":
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(path)
        if not path.is_file():
            make = command("pool", queries=Blank("FILE"), out=path)
            raise InputError(f"there is no pool {path}", parameter="pool", instead="make one with: " + make)
        try:
            columns = pq.read_schema(path).names
        except (OSError, pa.ArrowInvalid) as problem:
            make = command("pool", queries=path, out=Blank("P"))
            raise InputError(f"{path} is not a pool", parameter="pool", instead="make one with: " + make) from problem
        if columns != ["query"]:  # and not, by a slip of the hand, the log itself
            raise InputError(f"{path} is not a pool, which has a column 'query' and no other: {', '.join(columns)}")
        pool = cls(path.resolve())  # an engine's workers may start elsewhere
        if pool.size == 0:
            raise InputError(f"the pool {path} is empty")
        return pool

    @classmethod
    def _write(cls, scan: str, out: Path, source: str, **tables: object) -> "QueryPool":
        import duckdb

        from searchveil.engine.duckdb import DuckDBEngine

        if out.exists():
            raise InputError(
                f"{out} exists", parameter="out", instead="choose another " + setting("out") + " or remove it first"
            )
        engine = DuckDBEngine()
        try:
            connection = engine.connection.con
            for name, table in tables.items():
                connection.register(name, table)
            distinct = f"select distinct query as \"query\" {scan} where regexp_matches(query, '[^\\s]') order by query"
            try:
                _check_columns(connection.sql(f"{scan} limit 0").columns, source)
                with atomic_path(out) as partial:
                    connection.execute(f"copy ({distinct}) to {literal(partial)} (format parquet, compression zstd)")
                    if cls(partial).size == 0:
                        raise InputError(f"{source} has no query in it")
            except duckdb.Error as problem:
                raise InputError(f"{source} could not become a pool: {str(problem).splitlines()[0]}") from problem
        finally:
            engine.close()
        return cls(out)


def _check_columns(columns: list[str], source: str) -> None:
    """A list of public queries has a column of them, and none that says whose they are."""
    if "query" not in map(str.casefold, columns):
        raise InputError(f"{source} has no column 'query'; it has {', '.join(columns)}")
    users = [name for name in columns if is_user_column(name)]
    if users:
        raise InputError(
            f"{source} has a column '{users[0]}', as logs have: a pool must be public before the log is looked at"
        )


def counts_with_pool(counts: ir.Table, pool: ir.Table, *, keep_log: bool) -> ir.Table:
    """Counts over the pool, zero where nobody searched; with `keep_log` also over what was searched outside it."""
    both = pool.left_join(counts, "query") if not keep_log else pool.outer_join(counts, "query")
    return both.select(query=both["query"].coalesce(both["query_right"]), count=both["count"].fill_null(0))


def _noun_like(path: Path) -> Iterator[tuple[float, str]]:
    if not path.is_file():
        raise InputError(f"there is no file {path} to make a pool from")
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            frequency, *words = line.split() or [""]
            if not words or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", frequency):
                continue
            head = words[-1].lower()
            if head.isalpha() and len(head) > 2 and head not in NOT_A_NOUN and not head.endswith(NOT_NOUN_ENDINGS):
                yield float(frequency), " ".join(words).lower()
