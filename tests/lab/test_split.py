"""Splitting a log: by users, repeatable, in the proportion asked for."""

import pyarrow as pa
import pytest

from searchveil.engine import Engine
from searchveil.errors import InputError
from searchveil.lab.split import split
from searchveil.log import SearchLog


def log_of(engine: Engine, users: int, rows: int = 2) -> SearchLog:
    names = [user for user in range(users) for _ in range(rows)]
    return SearchLog(engine.load(pa.table({"user": names, "query": ["q"] * len(names)})), engine)


def users_of(log: SearchLog) -> list[int]:
    return sorted(int(user or 0) for user in log.engine.fetch(log.table.select("user"))["user"].to_pylist())


def test_every_row_is_in_one_part_and_every_user_in_one_only(engine: Engine) -> None:
    log = log_of(engine, 50)
    train, test = (users_of(part) for part in split(log, fraction=0.4, seed=1))
    assert sorted(train + test) == users_of(log)
    assert not set(train) & set(test)
    assert train
    assert test


def test_the_same_seed_splits_the_same_way_and_another_does_not(duckdb_engine: Engine) -> None:
    log = log_of(duckdb_engine, 200)
    once, again, other = (users_of(split(log, seed=seed)[1]) for seed in (7, 7, 8))
    assert once == again
    assert once != other


@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.5])
def test_the_fraction_is_kept(duckdb_engine: Engine, fraction: float) -> None:
    """Binomial: six standard deviations are a chance of 2e-9, were the hash random."""
    users = 20_000
    test = split(log_of(duckdb_engine, users, rows=1), fraction=fraction, seed=3)[1]
    deviation = (users * fraction * (1 - fraction)) ** 0.5
    assert abs(test.users - users * fraction) < 6 * deviation


def test_two_seeds_choose_independently(duckdb_engine: Engine) -> None:
    """Of a fifth under each of two seeds, a twenty-fifth is in both; six standard deviations as above."""
    users = 20_000
    log = log_of(duckdb_engine, users, rows=1)
    both = set(users_of(split(log, seed=1)[1])) & set(users_of(split(log, seed=2)[1]))
    assert abs(len(both) - users / 25) < 6 * (users / 25 * 24 / 25) ** 0.5


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 20])
def test_a_fraction_that_leaves_a_part_empty_is_refused(duckdb_engine: Engine, fraction: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        split(log_of(duckdb_engine, 3), fraction=fraction, seed=1)
