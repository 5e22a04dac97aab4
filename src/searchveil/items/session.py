"""A session as published: the ordered subsequences of a user's first sessions."""

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.engine.histogram import first_of_each_user
from searchveil.log.sessions import GAP_MINUTES, number_sessions

SEPARATOR = "\x1f"  # the unit separator, which no normalised query contains; others lose it


def first_sessions(
    sent: ir.Table,
    sessions_per_user: int,
    queries_per_session: int,
    engine: Engine,
    gap_minutes: float = GAP_MINUTES,
) -> ir.Table:
    """Each user's first sessions of two or more queries: user, length and the queries as columns q0, q1, …

    `sent` holds submissions (user, query, time). A query repeated in a row counts once. A session is `settled` if the
    user has a later one, so that nothing can be added to it.
    """
    numbered = engine.stage(number_sessions(sent, gap_minutes))
    # Most sessions are not among the first: they go before anything needs an order.
    sessions = numbered.group_by(["user", "session"]).agg(low=numbered["query"].min(), high=numbered["query"].max())
    several = sessions.filter(sessions["low"] != sessions["high"]).select("user", "session")
    chosen = first_of_each_user(several, ["session"], sessions_per_user)
    rows = numbered.semi_join(chosen, ["user", "session"])

    in_order = ibis.window(group_by=["user", "session"], order_by=["time", "query"])
    marked = rows.mutate(previous=rows["query"].lag().over(in_order))
    changed = marked.filter(marked["previous"].isnull() | (marked["previous"] != marked["query"]))
    placed = changed.mutate(place=ibis.row_number().over(in_order))
    kept = placed.filter(placed["place"] < queries_per_session)
    queries = {f"q{i}": kept["query"].max(where=kept["place"] == i) for i in range(queries_per_session)}
    wide = kept.group_by(["user", "session"]).agg(length=kept.count(), **queries)

    latest = numbered.group_by("user").agg(latest=numbered["session"].max())
    dated = wide.join(latest, "user")
    return dated.mutate(settled=dated["session"] < dated["latest"]).drop("latest")


def subsequences(sessions: ir.Table, queries_per_session: int, engine: Engine) -> ir.Table:
    """Every subsequence of two or more queries of a session, in order: user and `session`, a text with separators.

    One row of a table of choices says which places a subsequence takes; joining it to the sessions counts inside the
    engine, without a copy of the plan for each of the 2^n choices.
    """
    places = range(queries_per_session)
    choices = [choice for choice in range(1 << queries_per_session) if choice.bit_count() >= 2]
    table = {"reach": [choice.bit_length() for choice in choices]}
    table |= {f"takes{i}": [choice >> i & 1 for choice in choices] for i in places}
    chosen = sessions.cross_join(engine.load(pa.table(table)))
    chosen = chosen.filter(chosen["reach"] <= chosen["length"])
    text = ibis.literal("")
    for i in places:
        query = chosen[f"q{i}"].replace(SEPARATOR, " ")
        text = text + ibis.ifelse(chosen[f"takes{i}"] == 1, ibis.literal(SEPARATOR) + query, "")
    return chosen.select("user", session=text)


def as_lists(published: pa.Table) -> pa.Table:
    """The separated texts as lists of queries."""
    lists = [str(text).split(SEPARATOR)[1:] for text in published["session"].to_pylist()]
    column = pa.array(lists, pa.list_(pa.string()))
    return published.set_column(published.column_names.index("session"), "session", column)
