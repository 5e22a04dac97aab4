"""Site clustering against a nested-loop single link, and purity in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tiny_logs import tiny_test, tiny_view

from searchveil.engine import Engine
from searchveil.lab.applications.site_clustering import SiteClustering, purity, single_link


def nested_loops(clicks: list[list[int]], least: float) -> list[set[int]]:
    """Join two clusters as long as any site of one is similar to any site of the other."""
    sites = range(len(clicks[0]))

    def share(a: int, b: int) -> float:
        total = sum(row[a] for row in clicks)
        return sum(row[a] for row in clicks if row[a] and row[b]) / total if total else 0.0

    clusters = [{site} for site in sites]
    joined = True
    while joined:
        joined = False
        for i, first in enumerate(clusters):
            for second in clusters[i + 1 :]:
                if any(min(share(a, b), share(b, a)) >= least for a in first for b in second):
                    first |= second
                    clusters.remove(second)
                    joined = True
                    break
            if joined:
                break
    return clusters


CLICKS = st.tuples(st.integers(1, 5), st.integers(1, 6)).flatmap(
    lambda shape: st.lists(
        st.lists(st.sampled_from([0, 0, 1, 2, 5]), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@given(CLICKS, st.sampled_from([0.25, 0.5, 1.0]))
def test_single_link_agrees_with_nested_loops(clicks: list[list[int]], least: float) -> None:
    numbers = single_link(sparse.csr_array(np.array(clicks, dtype=float)), least).tolist()
    found = {frozenset(site for site, n in enumerate(numbers) if n == number) for number in numbers}
    assert found == {frozenset(cluster) for cluster in nested_loops(clicks, least)}


def test_purity_in_closed_form() -> None:
    pairs = [("1", "bank"), ("1", "bank"), ("1", "song"), ("2", "song"), ("2", "bank")]
    assert purity(pairs) == pytest.approx((2 + 1) / 5)
    assert purity([]) == 0.0


def test_clusters_of_a_log_by_site(engine: Engine) -> None:
    """bank.com and BANK2 share half of the less shared one's clicks; the pages of a site are one site."""
    view = tiny_view(
        engine,
        click=[
            ("bank", "http://bank.com/login", 1),
            ("bank", "http://bank.com/", 1),
            ("bank", "https://BANK2.com?x", 1),
            ("bank two", "bank2.com", 1),  # half of the clicks of bank2.com come from the common query: just enough
            ("song", "song.org#top", 5),
            ("bank", "song.org", 4),  # 4 of 9: too few
            ("gone", "zero.org", 0),
        ],
    )
    names = ["bank.com", "bank2.com", "song.org", "zero.org", "never seen"]
    assert SiteClustering().clusters(view, names) == {
        "bank.com": "bank.com",
        "bank2.com": "bank.com",
        "song.org": "song.org",
    }


@pytest.mark.slow
def test_a_release_is_judged_by_the_clusters_of_the_original(duckdb_engine: Engine) -> None:
    """The original joins {a, b, c} and {d, e}; the release {a, b, d}, knows c alone, and lost e."""
    original = tiny_view(
        duckdb_engine, click=[("x", "a", 9), ("x", "b", 8), ("x", "c", 7), ("y", "d", 6), ("y", "e", 5), ("z", "f", 1)]
    )
    release = tiny_view(duckdb_engine, click=[("x", "a", 9), ("x", "b", 8), ("x", "d", 7), ("w", "c", 6)])
    test = tiny_test(original)
    assert SiteClustering().run(release, test) == pytest.approx(
        {
            "purity": 2 / 3,
            "purity over all": 2 / 5,
            "inverse purity": (2 + 1) / 5,
            "clusters": 1,
            "clustered sites": 3,
            "sites": 4,
        }
    )
    assert SiteClustering().run(original, test) == pytest.approx(
        {
            "purity": 1,
            "purity over all": 1,
            "inverse purity": 1,
            "clusters": 2,
            "clustered sites": 5,
            "sites": 6,
        }
    )
    # Only the sites most clicked in the original are looked at: d and e are not among the first three.
    assert SiteClustering(sites=3).run(release, test)["clustered sites"] == 2


def test_labels_by_hand_judge_the_original_too(duckdb_engine: Engine) -> None:
    original = tiny_view(duckdb_engine, click=[("x", "a", 9), ("x", "b", 8), ("x", "c", 7)])
    labels = {"a": "bank", "b": "bank", "c": "song", "unseen": "song"}
    assert SiteClustering(labels=labels).run(original, tiny_test(original))["purity"] == pytest.approx(2 / 3)
