"""searchveil publishes search logs without publishing searchers.

import searchveil as sv

log = sv.read_log("aol.tsv")
release = sv.Zealous(epsilon=1, delta=1e-6, item="query", per_user=5).release(log)
print(release.guarantee)
release.write("out/")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from searchveil.engine import open_engine as open_engine
    from searchveil.errors import BudgetRefused as BudgetRefused
    from searchveil.errors import InputError as InputError
    from searchveil.errors import SearchveilError as SearchveilError
    from searchveil.items.pool import QueryPool as QueryPool
    from searchveil.lab.audit import audit as audit
    from searchveil.lab.evaluate import evaluate as evaluate
    from searchveil.log import SearchLog as SearchLog
    from searchveil.log.demo import write_demo as write_demo
    from searchveil.log.normalize import Normalization as Normalization
    from searchveil.log.read import read_log as read_log
    from searchveil.privacy.guarantee import Guarantee as Guarantee
    from searchveil.privacy.ledger import Ledger as Ledger
    from searchveil.publish import method as method
    from searchveil.publish.k_keyword import KKeyword as KKeyword
    from searchveil.publish.k_query import KQuery as KQuery
    from searchveil.publish.k_session import KSession as KSession
    from searchveil.publish.korolova import Korolova as Korolova
    from searchveil.publish.plan import Plan as Plan
    from searchveil.publish.release import Release as Release
    from searchveil.publish.safelog_click import SafeLogClick as SafeLogClick
    from searchveil.publish.safelog_session import SafeLogSession as SafeLogSession
    from searchveil.publish.sampling import Sampling as Sampling
    from searchveil.publish.synthetic.mechanism import Synthetic as Synthetic
    from searchveil.publish.votes import Votes as Votes
    from searchveil.publish.weighted import Weighted as Weighted
    from searchveil.publish.zealous import Zealous as Zealous

# Loaded when first asked for: `searchveil --help` must not wait for the engines.
_WHERE = {
    "open_engine": "engine",
    "BudgetRefused": "errors",
    "InputError": "errors",
    "SearchveilError": "errors",
    "audit": "lab.audit",
    "evaluate": "lab.evaluate",
    "SearchLog": "log",
    "write_demo": "log.demo",
    "Normalization": "log.normalize",
    "read_log": "log.read",
    "Guarantee": "privacy.guarantee",
    "Ledger": "privacy.ledger",
    "method": "publish",
    "KKeyword": "publish.k_keyword",
    "KQuery": "publish.k_query",
    "KSession": "publish.k_session",
    "Korolova": "publish.korolova",
    "Plan": "publish.plan",
    "Release": "publish.release",
    "QueryPool": "items.pool",
    "SafeLogClick": "publish.safelog_click",
    "SafeLogSession": "publish.safelog_session",
    "Sampling": "publish.sampling",
    "Votes": "publish.votes",
    "Synthetic": "publish.synthetic.mechanism",
    "Weighted": "publish.weighted",
    "Zealous": "publish.zealous",
}
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'searchveil' has no attribute '{name}'")
    return getattr(import_module(f"searchveil.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
