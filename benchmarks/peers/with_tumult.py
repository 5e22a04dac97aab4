# mypy: ignore-errors
"""Tumult Analytics on a local Spark. Read against version 0.21.

Its public way takes two questions: which queries (`get_groups`, which hides the counts it found them by) and how many
users asked each. Each gets half of ε; the first gets all of δ, which it divides by k·e^ε for k rows of a user.
"""

import os
import sys
import warnings

# Spark's Python workers are to be of this environment, and its Java is told its memory before it starts.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

from contract import Outcome, Task, answer
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    Session,
)

warnings.simplefilter("ignore")
spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.driver.memory", "4g")
    .config("spark.sql.shuffle.partitions", 2 * (os.cpu_count() or 1))
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def release(task: Task) -> Outcome:
    half = task.epsilon / 2
    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(task.epsilon, task.delta),
        source_id="log",
        dataframe=spark.read.parquet(task.log).select("user", "query"),
        protected_change=AddRowsWithID("user"),
    )
    kept = QueryBuilder("log").enforce(MaxGroupsPerID("query", task.per_user)).enforce(MaxRowsPerGroupPerID("query", 1))
    queries = session.evaluate(kept.get_groups(["query"]), ApproxDPBudget(half, task.delta))
    counting = kept.groupby(KeySet.from_dataframe(queries)).count()
    counts = [row["count"] for row in session.evaluate(counting, ApproxDPBudget(half, 0)).collect()]
    return Outcome(len(counts), sum(counts), "discrete Laplace; ε halved between choosing and counting")


answer(release)
spark.stop()
