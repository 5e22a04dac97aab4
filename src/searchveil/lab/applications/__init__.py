"""What is a release still good for? One file per application; each runs alike on a release and on the original."""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol, cast

from searchveil.errors import InputError

if TYPE_CHECKING:
    from searchveil.lab.testset import TestSet
    from searchveil.lab.view import View

APPLICATIONS = {
    "index-caching": "searchveil.lab.applications.index_caching:IndexCaching",
    "query-substitution": "searchveil.lab.applications.query_substitution:QuerySubstitution",
    "ad-hoc-search": "searchveil.lab.applications.ad_hoc_search:AdHocSearch",
    "ad-hoc-search-impact": "searchveil.lab.applications.ad_hoc_search:ImpactSearch",
    "ad-hoc-search-feedback": "searchveil.lab.applications.implicit_feedback:TrainingFeedback",
    "ad-hoc-search-feedback-published": "searchveil.lab.applications.implicit_feedback:PublishedFeedback",
    "query-suggestion": "searchveil.lab.applications.query_suggestion:QuerySuggestion",
    "query-suggestion-clicks": "searchveil.lab.applications.query_suggestion:ClickSuggestion",
    "click-model": "searchveil.lab.applications.click_model:ClickModel",
    "session-search": "searchveil.lab.applications.session_search:SessionSearch",
    "site-clustering": "searchveil.lab.applications.site_clustering:SiteClustering",
}


class Application(Protocol):
    """Its parameters are the fields of a frozen dataclass; `needs` names the tables a view must have.

    `score` names the figure to look at first: from 0 to 1, more is better, and what is left unanswered counts as 0.
    """

    @property
    def needs(self) -> tuple[str, ...]: ...

    @property
    def score(self) -> str: ...

    def run(self, view: "View", test: "TestSet") -> dict[str, float]: ...


def application_named(name: str) -> type[Application]:
    if name not in APPLICATIONS:
        raise InputError(f"no application '{name}'; there are {', '.join(APPLICATIONS)}")
    return cast("type[Application]", resolve_name(APPLICATIONS[name]))
