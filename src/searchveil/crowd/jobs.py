"""Jobs: signed documents that say what leaves a person's machine, and what may become public."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from searchveil.crowd.artifacts import LONGEST, kind_named
from searchveil.crowd.policy import MOST_SHARES, USUAL_REPORTS, Policy
from searchveil.errors import InputError, shortest

VERSION = 1
ID_BYTES = 16
_PURPOSE = b"searchveil crowd job v1\n"


class JobError(InputError):
    """A job that is forged, expired, or promises what its numbers do not keep."""


@dataclass(frozen=True)
class Job:
    """What is asked of clients. Times are seconds since 1970; keys are hexadecimal."""

    community: str
    artifact: str
    policy: Policy
    epoch: int  # whose randomness key the artifacts' keys come from
    randomness_key: str
    randomness_token_key: str  # of the tokens that pay for evaluations: the same for all members
    token_key: str  # of the tokens that reports carry
    opens: int
    expires: int
    secondary_k: int | None = (
        None  # so many people (FT_a: searches) must share a spelling; None: spellings are not sent
    )
    domains: bool = False  # urls are cut to their domain
    recent: bool = False  # under a contribution bound: the last d artifacts instead of the first

    def check(self) -> None:
        texts = (self.community, self.artifact, self.randomness_key, self.randomness_token_key, self.token_key)
        if not all(isinstance(one, str) for one in texts) or not all(
            type(one) is int for one in (self.epoch, self.opens, self.expires, self.secondary_k or 0)
        ):
            raise JobError("a job is not the document that it should be")
        self.policy.check()
        kind_named(self.artifact)
        if self.secondary_k is not None and (self.policy.is_private or not 2 <= self.secondary_k <= MOST_SHARES):
            raise JobError(
                f"typed spellings are sent under FT_a and FT_u alone, with a threshold of 2 to {MOST_SHARES:,}",
                parameter="secondary_k",
            )
        if self.expires <= self.opens:
            raise JobError("a job must expire after it opens", parameter="expires")

    @cached_property
    def text(self) -> str:
        """What is signed, byte for byte."""
        record = {"version": VERSION, **asdict(self), "words": self.words()}
        return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def id(self) -> bytes:
        return hashlib.sha256(_PURPOSE + self.text.encode()).digest()[:ID_BYTES]

    def spelling(self, typed: str) -> str:
        """What is kept of an artifact as it was typed: nothing, unless the job asks for it and a report has room."""
        return typed if self.secondary_k is not None and len(typed.encode()) <= LONGEST else ""

    def words(self) -> dict[str, str]:
        """In plain words: what leaves the machine, what may become public, what is promised."""
        policy, kind = self.policy, kind_named(self.artifact)
        whose = "different people" if not policy.per_artifact else "searches"
        leaves = f"Encrypted: {kind.words}"
        if policy.per_user < USUAL_REPORTS:  # more than most members have
            leaves += f", at most {policy.per_user} of them"
        if policy.name == "ST_u":
            leaves += f", each only if a coin that shows heads {100 * policy.p:g} times in 100 says so"
        if self.domains:
            leaves += "; of addresses the domain only"
        opens = f"The server can read one only when reports of {policy.k} {whose} with the same text have arrived."
        public = f"What was opened may be published with the number of {whose}."
        if policy.noisy:
            public = (
                f"Noise is added to the number of {whose}; what still reaches {policy.threshold} may be published "
                "with that noisy number."
            )
        if self.secondary_k is not None:
            typed = "searches have it typed" if policy.per_artifact else "people typed it"
            public += f" A spelling becomes readable only when {self.secondary_k} {typed} in the same way."
        promise = "No differential privacy: people who know k − 1 of the senders can tell whether you are the k-th."
        if policy.per_artifact:
            promise = "No differential privacy, and your searches alone are enough if you repeat one often enough."
        if policy.is_private:
            promise = (
                f"Whether you take part changes the odds of any published result by a factor of at most e^"
                f"{shortest(policy.epsilon or 0)}, except with probability {shortest(policy.delta or 0)}."
            )
        return {"leaves": leaves + ".", "opens": opens, "public": public, "promise": promise}

    def sign(self, private: bytes) -> str:
        """The document that clients fetch."""
        self.check()
        key = Ed25519PrivateKey.from_private_bytes(private)
        return json.dumps({"job": self.text, "signature": key.sign(_PURPOSE + self.text.encode()).hex()})

    @classmethod
    def from_text(cls, text: str) -> "Job":
        try:
            record = json.loads(text)
            if record.pop("version") != VERSION:
                raise JobError("a job of another version; update searchveil")
            words = record.pop("words")
            job = cls(**record | {"policy": Policy(**record["policy"])})
            job.check()
            true_words = job.words()
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
            raise JobError("a job is not the document that it should be") from error
        if words != true_words:
            raise JobError("the words of a job do not say what its numbers say")
        return job


def read_job(document: str | Mapping[str, Any], signer: bytes, now: float | None = None) -> Job:
    """The job in a document, if the community signed it, its promise holds, and it is open now."""
    try:
        record = json.loads(document) if isinstance(document, str) else document
        text, signature = record["job"], bytes.fromhex(record["signature"])
        Ed25519PublicKey.from_public_bytes(signer).verify(signature, _PURPOSE + text.encode())
    except (InvalidSignature, ValueError, KeyError, TypeError, AttributeError) as error:
        raise JobError("a job is not signed by this community: it is forged or damaged") from error
    job = Job.from_text(text)
    if now is not None and not job.opens <= now < job.expires:
        raise JobError("a job is not open now: it has expired or not begun; check the clock of this machine")
    return job
