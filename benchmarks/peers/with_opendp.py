# mypy: ignore-errors
"""OpenDP through its Polars front, which finds noise and threshold itself. Read against version 0.16.

Three ways of keeping a user's queries to the limit:
* per-group: two of its own truncations, one row per user and query, then that many rows per user. Exact and random.
* num-groups: its `truncate_num_groups(k)`, which keeps k−1 groups (it asks that a rank counted from 1 be below k), so
  it is told one more and then also adds the noise of one more. Its keep="sample" cannot be run (it makes a struct of
  two fields of one name), so the first queries in the alphabet are kept.
* by-hand: limited in plain Polars; OpenDP is told that the bound holds and does the rest.

It publishes counts strictly above the threshold it finds (75 at ε=1, δ=1e-6, 5 queries), so from 76, which is the
smallest integer whose exact δ is within 1e-6.
"""

import warnings

import opendp.prelude as dp
import polars as pl
from contract import Outcome, Task, answer

dp.enable_features("contrib")
warnings.filterwarnings("ignore", category=FutureWarning)  # that counts below zero will one day not be cut off


def release(task: Task) -> Outcome:
    rows = pl.scan_parquet(task.log).select("user", "query")
    loss = dp.loss_of(epsilon=task.epsilon, delta=task.delta)
    if task.variant == "by-hand":
        place = pl.int_range(pl.len()).shuffle().over("user")
        rows = rows.unique(["user", "query"]).filter(place < task.per_user)
        unit = dp.unit_of(contributions=[dp.polars.Bound(by=["query"], per_group=1, num_groups=task.per_user)])
        kept = dp.Context.compositor(data=rows, privacy_unit=unit, privacy_loss=loss, split_evenly_over=1).query()
    else:
        unit = dp.unit_of(contributions=1, identifier=pl.col("user"))
        query = dp.Context.compositor(data=rows, privacy_unit=unit, privacy_loss=loss, split_evenly_over=1).query()
        once = query.truncate_per_group(1, by=["query"])
        if task.variant == "num-groups":
            kept = once.truncate_num_groups(task.per_user + 1, by=["query"], keep="first")
        else:
            kept = once.truncate_per_group(task.per_user)
    table = kept.group_by("query").agg(dp.len()).release().collect()
    return Outcome(table.height, float(table["len"].sum()), NOTES[task.variant] + _smallest(table))


def _smallest(table: pl.DataFrame) -> str:
    return f", smallest published {table['len'].min()}" if table.height else ""


NOTES = {
    "per-group": "its own truncation, exact; discrete Laplace for 5",
    "num-groups": "told 6 groups to keep 5, so discrete Laplace for 6; keeps the alphabet's first",
    "by-hand": "limited in plain Polars, bound declared; discrete Laplace for 5",
}

answer(release)
