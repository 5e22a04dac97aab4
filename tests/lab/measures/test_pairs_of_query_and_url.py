"""The measures of Hong et al. 2012 on the paper's own example, and diversity, by hand.

In Figure 1 pregnancy test and diabetes are one user's: 50 clicks are left, of book 4, google 39 and car price 7.
"""

import pyarrow as pa
import pytest
from tiny import FIGURE_1, log_of_clicks, release_of, release_of_counts, views_of_clicks, views_of_queries

from searchveil.engine import Engine
from searchveil.lab.measures.diff_ratio import DiffRatio
from searchveil.lab.measures.diversity import Diversity
from searchveil.lab.measures.frequent_pairs import FrequentPairs
from searchveil.lab.measures.retained_users import RetainedUsers
from searchveil.lab.measures.shared_clicks import shared_clicks
from searchveil.lab.view import View

SAMPLED = {"book": 3, "google": 20, "car price": 4}  # the figure's output, of 27


def test_pairs_of_one_user_are_left_out(duckdb_engine: Engine) -> None:
    pairs = duckdb_engine.fetch(shared_clicks(View.of_log(log_of_clicks(duckdb_engine, FIGURE_1)))).to_pylist()
    assert {row["query"]: row["count"] for row in pairs} == {"book": 4, "google": 39, "car price": 7}
    assert {row["url"] for row in pairs} == {"book.org", "google.org", "car price.org"}


def test_frequent_pairs(duckdb_engine: Engine) -> None:
    """Supports 0.08, 0.78, 0.14 against 3/27 = 0.111, 0.741, 0.148."""
    figures = FrequentPairs(one_in=(2, 8, 10, 20)).measure(*views_of_clicks(duckdb_engine, FIGURE_1, SAMPLED))
    google, car = abs(20 / 27 - 0.78), abs(4 / 27 - 0.14)
    assert figures == {
        "recall@1/2": 1,
        "precision@1/2": 1,
        "distance@1/2": pytest.approx(google),
        "recall@1/8": 1,
        "precision@1/8": 1,
        "distance@1/8": pytest.approx(google + car),
        "recall@1/10": 1,
        "precision@1/10": pytest.approx(2 / 3),  # book has become frequent
        "distance@1/10": pytest.approx(google + car),
        "recall@1/20": 1,
        "precision@1/20": 1,
        "distance@1/20": pytest.approx(google + car + abs(3 / 27 - 0.08)),
    }


def test_frequent_pairs_that_are_gone(duckdb_engine: Engine) -> None:
    figures = FrequentPairs(one_in=(10,)).measure(*views_of_clicks(duckdb_engine, FIGURE_1, {"google": 5, "new": 5}))
    assert figures["recall@1/10"] == 1 / 2
    assert figures["precision@1/10"] == 1 / 2  # a pair that the log lacks is no frequent one of it
    assert figures["distance@1/10"] == pytest.approx(0.28 + 0.14)


def test_an_empty_release_has_no_precision(duckdb_engine: Engine) -> None:
    figures = FrequentPairs(one_in=(2, 1)).measure(*views_of_clicks(duckdb_engine, FIGURE_1, {}))
    assert figures == {"recall@1/2": 0, "distance@1/2": pytest.approx(0.78)}  # and no pair has all the clicks


def test_diff_ratio_of_pairs(duckdb_engine: Engine) -> None:
    figures = DiffRatio(within=(0.055, 0.06)).measure(*views_of_clicks(duckdb_engine, FIGURE_1, {**SAMPLED, "book": 0}))
    book, google, car = 1, abs(20 / 24 * 50 / 39 - 1), abs(4 / 24 * 50 / 7 - 1)
    assert google == pytest.approx(0.0684, abs=1e-4)
    assert car == pytest.approx(0.1905, abs=1e-4)
    assert figures["pairs.mean"] == pytest.approx((book + google + car) / 3)


def test_diff_ratio_of_published_pairs(duckdb_engine: Engine) -> None:
    figures = DiffRatio(within=(0.055, 0.06)).measure(*views_of_clicks(duckdb_engine, FIGURE_1, SAMPLED))
    ratios = [abs(3 / 27 / 0.08 - 1), abs(20 / 27 / 0.78 - 1), abs(4 / 27 / 0.14 - 1)]  # 0.389, 0.050, 0.058
    assert figures == {
        "pairs.mean": pytest.approx(sum(ratios) / 3),
        "pairs.within_0.055": pytest.approx(1 / 3),
        "pairs.within_0.06": pytest.approx(2 / 3),
        "published.mean": pytest.approx(sum(ratios) / 3),
        "published.within_0.055": pytest.approx(1 / 3),
        "published.within_0.06": pytest.approx(2 / 3),
    }
    less = DiffRatio().measure(*views_of_clicks(duckdb_engine, FIGURE_1, {"google": 20}))
    assert less["pairs.mean"] == pytest.approx((1 + 1 + abs(1 / 0.78 - 1)) / 3)
    assert less["published.mean"] == pytest.approx(1 / 0.78 - 1)


def test_nothing_published_is_a_ratio_of_one(duckdb_engine: Engine) -> None:
    figures = DiffRatio(within=(0.4,)).measure(*views_of_clicks(duckdb_engine, FIGURE_1, {}))
    assert figures == {"pairs.mean": 1, "pairs.within_0.4": 0}


def sample(engine: Engine, names: dict[str, str]) -> tuple[View, View]:
    """A sample of 10 clicks of Figure 1, under the given names of its users."""
    rows = {("081", "google"): 4, ("083", "google"): 4, ("083", "car price"): 2}
    table = pa.table(
        {
            "user": [names[user] for user, _ in rows],
            "query": [query for _, query in rows],
            "url": [f"{query}.org" for _, query in rows],
            "count": list(rows.values()),
        }
    )
    release = View.of_release(release_of("click", data=table), engine)
    return View.of_log(log_of_clicks(engine, FIGURE_1)), release


def test_triplets_where_users_keep_their_names(duckdb_engine: Engine) -> None:
    """Seven triplets are of shared pairs; four of them are gone."""
    original, release = sample(duckdb_engine, {"081": "081", "083": "083"})
    figures = DiffRatio(within=(0.4,)).measure(original, release)
    ratios = [abs(4 / 10 * 50 / 15 - 1), abs(4 / 10 * 50 / 17 - 1), abs(2 / 10 * 50 / 5 - 1), 1, 1, 1, 1]
    assert figures["triplets.mean"] == pytest.approx(sum(ratios) / 7)  # 1/3, 0.176, 1 and four times 1
    assert figures["triplets.within_0.4"] == pytest.approx(2 / 7)


def test_pseudonyms_are_not_held_against_names(duckdb_engine: Engine) -> None:
    """Even where a pseudonym happens to be a name: 081 never clicked on a car price."""
    original, release = sample(duckdb_engine, {"081": "083", "083": "081"})
    assert not any(name.startswith("triplets") for name in DiffRatio().measure(original, release))


def test_retained_users(duckdb_engine: Engine) -> None:
    assert RetainedUsers().measure(*sample(duckdb_engine, {"081": "x", "083": "y"})) == {"users": 2, "share": 2 / 3}


def test_diversity(duckdb_engine: Engine) -> None:
    figures = Diversity().measure(*views_of_clicks(duckdb_engine, FIGURE_1, {"google": 9, "book": 1, "new": 7}))
    assert figures == {
        "query.kept": 2,
        "query.share": 2 / 5,
        "keyword.kept": 2,
        "keyword.share": 2 / 7,
        "click.kept": 2,
        "click.share": 2 / 5,
        "click.share_of_shared": 2 / 3,
        "url.kept": 2,
        "url.share": 2 / 5,
    }


def test_diversity_without_clicks(duckdb_engine: Engine) -> None:
    figures = Diversity().measure(*views_of_queries(duckdb_engine, {"a b": 3, "c": 1}, {"a b": 2}))
    assert figures == {"query.kept": 1, "query.share": 1 / 2, "keyword.kept": 2, "keyword.share": 2 / 3}


def test_clicks_of_a_release_where_the_log_has_none(duckdb_engine: Engine) -> None:
    original, _ = views_of_queries(duckdb_engine, {"a": 3}, {})
    release = View.of_release(release_of_counts(["query", "url"], {("a", "a.org"): 2}), duckdb_engine)
    assert set(Diversity().measure(original, release)) == {"query.kept", "query.share", "keyword.kept", "keyword.share"}
