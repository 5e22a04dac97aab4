"""The formats searchveil reads: one file each, one line here, in the order in which they are recognised."""

from searchveil.log.readers import access_log, aol, elastic, excite, generic, parquet, sogou, trec, ubi
from searchveil.log.readers.base import Reader, Request

READERS: dict[str, Reader] = {
    "aol": aol.READER,
    "ubi": ubi.READER,
    "sogou": sogou.READER,
    "excite": excite.READER,
    "trec": trec.READER,
    "access-log": access_log.READER,
    "elastic": elastic.READER,
    "parquet": parquet.READER,
    "jsonl": generic.JSONL,
    "tsv": generic.TSV,
    "csv": generic.CSV,
}

__all__ = ["READERS", "Reader", "Request"]
