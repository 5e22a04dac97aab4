"""What a release says about itself: a card for people, Croissant for catalogues, the deployment registry's record."""

from searchveil.publish.card.croissant import croissant
from searchveil.publish.card.deployment import deployment
from searchveil.publish.card.description import DataFile, Description
from searchveil.publish.card.proof import FILE as PROOF
from searchveil.publish.card.proof import proof_text
from searchveil.publish.card.readme import readme

__all__ = ["PROOF", "DataFile", "Description", "croissant", "deployment", "proof_text", "readme"]
