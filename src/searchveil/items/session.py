"""A session as published: the ordered subsequences of a user's first sessions."""

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from searchveil.engine import Engine
from searchveil.log.sessions import GAP_MINUTES, starts_session

SEPARATOR = "\x1f"  # the unit separator, which no normalised query contains; others lose it


def first_sessions(
    sent: ir.Table,
    sessions_per_user: int,
    queries_per_session: int,
    engine: Engine,
    gap_minutes: float = GAP_MINUTES,
) -> ir.Table:
    """Each user's first sessions of two or more queries: user, length and the queries as columns q0, q1, …

    `sent` holds searches (user, query, time). A query repeated in a row counts once, so it does not matter if a search
    with several clicks is several rows. A session is `settled` if no later row of the user could change what is kept:
    it is full, or the user has a later one; `place` tells which of the user's sessions it is.
    """
    in_order = ibis.window(group_by="user", order_by=["time", "query"])
    marked = sent.mutate(
        starts=starts_session(sent["time"], in_order, gap_minutes),
        repeats=(sent["query"] == sent["query"].lag().over(in_order)).fill_null(False),
    )
    # Rows that say nothing new go before the second sort; they have done their part in keeping a session together.
    changes = marked.filter(marked["starts"] | ~marked["repeats"]).drop("repeats")
    until_now = ibis.cumulative_window(group_by="user", order_by=["time", "query"])
    session = changes["starts"].cast("int64").sum().over(until_now)
    numbered = engine.stage(changes.select("user", "query", session=session, row=ibis.row_number().over(in_order)))
    sessions = numbered.group_by(["user", "session"]).agg(found=numbered.count(), first=numbered["row"].min())
    several = sessions.filter(sessions["found"] >= 2)
    latest = numbered.group_by("user").agg(latest=numbered["session"].max())
    placed = several.mutate(place=ibis.row_number().over(ibis.window(group_by="user", order_by="session")))
    chosen = placed.filter(placed["place"] < sessions_per_user).join(latest, "user")

    rows = numbered.join(chosen, ["user", "session"])
    rows = rows.mutate(nth=rows["row"] - rows["first"])
    kept = rows.filter(rows["nth"] < queries_per_session)
    queries = {f"q{i}": kept["query"].max(where=kept["nth"] == i) for i in range(queries_per_session)}
    settled = (kept["session"] < kept["latest"]) | (kept["found"] >= queries_per_session)
    return kept.group_by(["user", "session", "place"]).agg(length=kept.count(), **queries, settled=settled.any())


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
