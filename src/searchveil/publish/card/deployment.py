"""deployment.yaml: what the registry of differential privacy deployments asks for, as far as it is known here.

What only the publisher knows (who may access the log, why these parameters) is left to fill in, in so many words.
"""

from typing import Any

from searchveil.privacy.guarantee import Guarantee, Trust
from searchveil.publish.card.description import TO_FILL_IN, Description

# In the registry's words. "Local" would say that what a user sends is differentially private by itself.
MODELS: dict[Trust, str] = {
    "central": "Central",
    "parties": "Distributed",
    "server": "Distributed",
    "nobody": "Distributed",
}


def deployment(release: Description) -> dict[str, Any]:
    plan, guarantee = release.plan, release.plan.guarantee
    return {
        "deployment": {
            "dp_variant": {
                "variant_name": _variant(release),
                "data_domain": f"Search logs: the search histories of any number of {guarantee.unit}s",
                "unprotected_quantities": _listed(
                    (*guarantee.unprotected, *(f"taken as public: {fact}" for fact in guarantee.assumed_public))
                )
                if guarantee.is_private
                else "All of them: this release is NOT differentially private",
            },
            "privacy_loss": {
                "privacy_unit": guarantee.unit,
                "privacy_unit_details": f"Adjacent logs differ by {guarantee.neighbours_in_words}",
                "privacy_parameters": privacy_parameters(guarantee),
            },
            "deployment_model": {
                "model_name": MODELS[guarantee.trust],
                "actors": f"Trusted: {guarantee.trust_in_words}; who sees the release: {TO_FILL_IN}",
                "release_type": "One-shot",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "composition": "Paid for in the publisher's budget ledger for this log"
                if release.in_ledger
                else "One release; the cost of any other release of the same log adds to it",
                "post_processing": "None" if guarantee.is_private else TO_FILL_IN,
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": TO_FILL_IN,
                "mechanisms": f"{plan.method} on {plan.item}, searchveil {release.version}; "
                + _listed(tuple(f"{name} = {value}" for name, value in plan.parameters.items())),
                "justification": f"Proof: {release.proof_in_words}. Caveats: {_listed(guarantee.caveats)}",
            },
        }
    }


def _variant(release: Description) -> str:
    guarantee = release.plan.guarantee
    if not guarantee.is_private:
        return "None: this release is NOT differentially private"
    return "Pure DP" if guarantee.delta == 0 else "Approximate DP"


def privacy_parameters(guarantee: Guarantee) -> dict[str, float]:
    if not guarantee.is_private:
        return {}
    return {"epsilon": guarantee.epsilon} | ({"delta": guarantee.delta} if guarantee.delta else {})


def _listed(sentences: tuple[str, ...]) -> str:
    return "; ".join(sentences) or "None"
