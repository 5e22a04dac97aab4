# mypy: ignore-errors
"""PipelineDP on its local backend. Read against version 0.3.

`post_aggregation_thresholding` spends the whole budget on one noisy count that also decides what is published; its
default would halve the budget between the two and publish fewer. A user's limit is applied to distinct queries, by
sampling. Its other backends hand every row to Python processes of Beam or Spark.
"""

import pipeline_dp
import pyarrow.parquet as pq
import pydp.algorithms.partition_selection as selection
from contract import Outcome, Task, answer

EXTRACTORS = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: row[1],
    value_extractor=lambda row: 0,
)


def release(task: Task) -> Outcome:
    return select(task) if task.variant.startswith("select-") else aggregate(task)


def select(task: Task) -> Outcome:
    """Its partition selection by itself: the queries, without counts."""
    kind = task.variant.removeprefix("select-").upper()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=task.epsilon, total_delta=task.delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    selected = engine.select_partitions(
        rows_of(task),
        pipeline_dp.SelectPartitionsParams(
            max_partitions_contributed=task.per_user,
            partition_selection_strategy=pipeline_dp.PartitionSelectionStrategy[kind],
        ),
        EXTRACTORS,
    )
    accountant.compute_budgets()
    released = len(list(selected))
    return Outcome(released, float(released), f"{kind.lower()}, {task.per_user} queries of a user")


def rows_of(task: Task) -> list:
    log = pq.read_table(task.log, columns=["user", "query"])
    return list(zip(log["user"].to_pylist(), log["query"].to_pylist(), strict=True))


def aggregate(task: Task) -> Outcome:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=task.epsilon, total_delta=task.delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    counts = engine.aggregate(
        rows_of(task),
        pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
            noise_kind=pipeline_dp.NoiseKind[task.variant.upper()],
            max_partitions_contributed=task.per_user,
            max_contributions_per_partition=1,
            post_aggregation_thresholding=True,
        ),
        EXTRACTORS,
    )
    accountant.compute_budgets()
    published = [metrics.privacy_id_count for _, metrics in counts]
    strategy = selection.create_partition_strategy(task.variant, task.epsilon, task.delta, task.per_user)
    return Outcome(
        len(published), sum(published), f"continuous {task.variant}, published from {strategy.threshold:.1f}"
    )


answer(release)
