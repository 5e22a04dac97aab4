"""How much one user may contribute: the bound is enforced here, in the data path."""

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from searchveil.engine.base import Engine


def bound_contributions(rows: ir.Table, columns: Sequence[str], per_user: int, seed: int, engine: Engine) -> ir.Table:
    """At most `per_user` different items of each user, chosen by a seeded hash of the user and the item.

    Which items a user keeps depends on that user's rows and the seed alone. Equal hashes are ordered by the item
    itself, so the choice is a function, whatever order the engine works in.
    """
    hashed = rows.mutate(_choice=engine.fast_hash([*(rows[column] for column in columns), rows["user"]], seed))
    candidates = engine.prefilter(hashed, "_choice", per_user).distinct()
    return first_of_each_user(candidates, ["_choice", *columns], per_user).select("user", *columns)


def first_of_each_user(rows: ir.Table, order: Sequence[str], per_user: int) -> ir.Table:
    """The first `per_user` rows of each user in an order that must leave no two rows of a user equal."""
    place = ibis.row_number().over(ibis.window(group_by="user", order_by=list(order)))
    placed = rows.mutate(_place=place)
    return placed.filter(placed["_place"] < per_user).drop("_place")
