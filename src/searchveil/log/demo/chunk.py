"""One chunk of users as a table. Chunks are drawn independently of each other, so memory stays bounded at any size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from searchveil.log.demo import codes, personal, text
from searchveil.log.demo.clicks import Clicks, draw_clicks
from searchveil.log.demo.codes import Ints
from searchveil.log.demo.forms import FORMS
from searchveil.log.demo.queries import draw_queries
from searchveil.log.demo.sessions import LOG_START, draw_submissions

USERS_PER_CHUNK = 4_096

_COLUMNS: dict[str, pa.DataType] = {
    "user": pa.int64(),
    "query": pa.string(),
    "time": pa.timestamp("us"),
    "rank": pa.int32(),
    "url": pa.string(),
}
SCHEMA = pa.schema(_COLUMNS)


@dataclass(frozen=True)
class Chunk:
    table: pa.Table
    users: int
    submissions: int
    clicks: int
    planted: int  # rows with a planted query


def make_chunk(number: int, users: int, seed: int, long_sessions: bool = False) -> Chunk:
    """The rows of chunk `number`: users number * USERS_PER_CHUNK + 1 and on, the same whatever the size of the log.

    A chunk is always drawn whole and cut afterwards, so that a smaller log is the beginning of a larger one.
    """
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, number))))
    first_user = number * USERS_PER_CHUNK + 1
    submissions = draw_submissions(rng, USERS_PER_CHUNK, long_sessions)
    query = draw_queries(rng, submissions, first_user, USERS_PER_CHUNK, seed)
    clicks = draw_clicks(rng, submissions, query, USERS_PER_CHUNK)

    wanted = min(users - first_user + 1, USERS_PER_CHUNK)
    count = int(np.searchsorted(submissions.user, wanted))
    kept_clicks = int(np.searchsorted(clicks.submission, count))
    clicks = Clicks(clicks.submission[:kept_clicks], clicks.rank[:kept_clicks], clicks.site[:kept_clicks])
    query = query[:count]

    # A submission without clicks has one row, one with clicks a row for each.
    clicks_of = np.bincount(clicks.submission, minlength=count)
    row = np.repeat(np.arange(count), np.maximum(clicks_of, 1))
    has_click = clicks_of[row] > 0
    click_of_row = pa.array(np.cumsum(has_click) - 1, pa.int64(), mask=~has_click)
    urls, url_of_click = _distinct(clicks.site)
    queries, query_of_submission = _distinct(query)
    table = pa.Table.from_arrays(
        [
            pa.array(submissions.user[row] + first_user),
            text.look_up(_texts(queries, seed), query_of_submission[row]),
            pa.array((LOG_START + submissions.time[row]).astype("datetime64[us]")),
            pa.array(clicks.rank.astype(np.int32)).take(click_of_row),
            text.look_up(text.site_addresses(urls), url_of_click).take(click_of_row),
        ],
        schema=SCHEMA,
    )
    planted = int(np.count_nonzero(codes.form_of(query[row]) == FORMS.personal))
    return Chunk(table, wanted, count, kept_clicks, planted)


def _distinct(numbers: Ints) -> tuple[Ints, Ints]:
    values, inverse = np.unique(numbers, return_inverse=True)
    return values, inverse.astype(np.int64)


def _texts(query: Ints, seed: int) -> pa.StringArray:
    """Texts of sorted query codes: the personal ones have the largest form number and so come last."""
    ordinary = int(np.searchsorted(codes.form_of(query), FORMS.personal))
    own = personal.personal_texts(codes.index_of(query[ordinary:]), seed)
    return pa.concat_arrays([text.texts(query[:ordinary]), own])
