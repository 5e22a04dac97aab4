"""The pairs of query and url that the sampling paper (Hong et al. 2012) compares: those of at least two users.

No method that protects a user can keep the pairs of one alone, so the paper drops them first and counts them nowhere:
here on neither side.
"""

import ibis
import ibis.expr.types as ir

from searchveil.lab.measures.compare import Joint, joint_counts
from searchveil.lab.view import View, columns_of


def shared_clicks(original: View) -> ir.Table:
    """(query, url, count) of a log's view, inside the engine."""
    history = original.tables["history"]  # holds a user's pair once
    pairs = history.group_by(columns_of("click")).agg(users=history.count(), count=history["count"].sum().cast("int64"))
    return pairs.filter(ibis._["users"] >= 2).drop("users")


def joint_of_shared(original: View, shared: ir.Table, released: ir.Table) -> Joint:
    """The shared pairs and what the release has of them or has made up, without its pairs of one user alone."""
    keys = columns_of("click")
    alone = original.tables["click"].semi_join(released, keys).anti_join(shared, keys)
    return joint_counts(original.engine, shared, released.anti_join(alone, keys), keys)
