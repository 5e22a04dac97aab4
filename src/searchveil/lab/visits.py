"""Sessions one by one: what can be told of each by numbers, for a model that tells an invented log from the original.

What a text says is no feature: the words of a search for one thing are not those for another. How long texts are, and
how often they are searched in their log, are.
"""

import ibis
import ibis.expr.types as ir

from searchveil.publish.synthetic.bins import GAP_SECONDS
from searchveil.publish.synthetic.searches import Searches

USERS_OF_SESSIONS = ("user", "session")
ACTIONS = (
    "searches", "different", "repeats", "asked_before", "seconds", "shortest_gap", "longest_gap", "hour", "weekday",
    "clicks", "clicked", "rank", "best_rank", "sessions",
)  # fmt: skip
TEXTS = ("words", "letters", "longest_text", "popularity", "least_popularity")


def visits_of(searches: Searches) -> ir.Table:
    """A row for each session: user, session, and a number for each feature; what a log does not tell is null."""
    engine, rows = searches.engine, searches.rows
    nothing = ibis.null("int64")
    told = {"clicks": rows["url"].count() if searches.clicked else nothing}
    for name, figure in {"rank": "sum", "best": "min", "ranked": "count"}.items():
        told[name] = getattr(rows["rank"], figure)() if searches.ranked else nothing
    each = engine.stage(rows.group_by(["user", "at", "query"]).agg(**told))
    texts = each.group_by("query").agg(popularity=each.count().cast("float64").log2().floor())
    in_order = ibis.window(group_by="user", order_by=["at", "query"])
    of_query = ibis.window(group_by=["user", "query"], order_by="at")
    placed = engine.stage(
        each.join(texts, "query").mutate(
            gap=each["at"] - each["at"].lag().over(in_order),
            repeats=(each["query"] == each["query"].lag().over(in_order)).fill_null(False).cast("int64"),
            again=(ibis.row_number().over(of_query) > 0).cast("int64"),
        )
    )
    starts = placed["gap"].isnull() | (placed["gap"] > GAP_SECONDS)
    until_now = ibis.cumulative_window(group_by="user", order_by=["at", "query"])
    marked = placed.mutate(inside=ibis.ifelse(starts, ibis.null("int64"), placed["gap"]), starts=starts.cast("int64"))
    numbered = engine.stage(marked.mutate(session=marked["starts"].sum().over(until_now)))
    letters = numbered["query"].length()
    words = letters - numbered["query"].replace(" ", "").length() + 1
    at = numbered["at"].min()
    found = numbered.group_by(list(USERS_OF_SESSIONS)).agg(
        searches=numbered.count(),
        different=numbered["query"].nunique(),
        repeats=(numbered["repeats"] * (1 - numbered["starts"])).sum(),
        asked_before=numbered["again"].sum(),
        seconds=numbered["at"].max() - at,
        shortest_gap=numbered["inside"].min(),
        longest_gap=numbered["inside"].max(),
        hour=(at % 86400) // 3600,
        weekday=(at // 86400) % 7,
        clicks=numbered["clicks"].sum(),
        clicked=(numbered["clicks"] > 0).cast("int64").sum(),
        rank=numbered["rank"].sum() / numbered["ranked"].sum().nullif(0),
        best_rank=numbered["best"].min(),
        words=words.mean(),
        letters=letters.mean(),
        longest_text=letters.max(),
        popularity=numbered["popularity"].mean(),
        least_popularity=numbered["popularity"].min(),
    )
    sessions = found.mutate(sessions=found.count().over(ibis.window(group_by="user")))
    features = {name: sessions[name].cast("float64") for name in (*ACTIONS, *TEXTS)}
    return sessions.select(*USERS_OF_SESSIONS, **features)
