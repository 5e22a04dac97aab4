"""Writes the crowd's test vectors: artifact → key → share → report → what travels. Another implementation that gives
the same bytes for the same inputs works with our servers.

    python tests/vectors/make_crowd.py            (tests/crowd/test_vectors.py compares)
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from searchveil.crowd.artifacts import normal
from searchveil.crowd.client import user_secret
from searchveil.crowd.config import Community
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import Policy
from searchveil.crowd.report import (
    TO_RELAY,
    TO_SERVER,
    coin,
    make_report,
    primary_input,
    receipt,
    secondary_input,
    secret_of,
    share_number,
    tag_of,
)
from searchveil.crowd.tokens import credential, member_of
from searchveil.crypto import hpke, voprf

FILE = Path(__file__).parent / "crowd" / "reports.json"


def bytes_of(name: str, size: int = 32) -> bytes:
    """Fixed bytes with a name, in place of random ones."""
    return sha256(f"searchveil vectors {name}".encode()).digest()[:size]


def vector(job: Job, typed: str, user: bytes, oprf: bytes, token_key: bytes) -> dict[str, Any]:
    text, policy = normal(typed), job.policy
    asked = primary_input(job.id, text)
    blind = voprf.to_blind(bytes_of(f"blind {typed}") * 2)
    blinded = voprf.blind(asked, blind)
    output = voprf.output(oprf, asked)
    nonce = bytes_of(f"token {typed}")
    token = nonce + voprf.output(token_key, nonce)
    x = share_number(user, job.id, text)
    spelling = None
    if job.secondary_k is not None:
        spelling = typed, voprf.output(oprf, secondary_input(job.id, text, typed)), job.secondary_k
    report = make_report(job.id, text, output, policy.k, x, token, spelling)
    written = report.to_bytes()
    server, relay = bytes_of("server key"), bytes_of("relay key")
    sealed = hpke.seal_with(bytes_of(f"first {typed}"), hpke.public_of(server), TO_SERVER, b"", written)
    wrapped = hpke.seal_with(bytes_of(f"second {typed}"), hpke.public_of(relay), TO_RELAY, b"", b"\x00" + sealed)
    return {
        "typed": typed,
        "text": text,
        "user_secret": user.hex(),
        "oprf_input": asked.hex(),
        "blind": blind.hex(),
        "blinded": blinded.element.hex(),
        "oprf_output": output.hex(),
        "secret": secret_of(output).hex(),
        "tag": tag_of(secret_of(output)).hex(),
        "coin": coin(user, job.id, text),
        "share": {"k": policy.k, "x": f"{x:032x}", "y": f"{report.y:064x}"},
        "primary": report.primary.hex(),
        "secondary": report.secondary.hex(),
        "token": token.hex(),
        "report": written.hex(),
        "receipt": receipt(written).hex(),
        "ephemeral": bytes_of(f"first {typed}").hex(),
        "sealed": sealed.hex(),
        "relay_ephemeral": bytes_of(f"second {typed}").hex(),
        "wrapped": wrapped.hex(),
    }


def make() -> dict[str, Any]:
    oprf = voprf.derive_key(bytes_of("oprf seed"), b"vectors")
    token_key = voprf.derive_key(bytes_of("token seed"), b"vectors")
    signer = bytes_of("signer")
    sets = []
    for policy, artifact, secondary in (
        (Policy("FT_u", 5), "query", 3),
        (Policy("ST_u", 8, 1, 0.1, 1.0, 1e-6), "query", None),
    ):
        job = Job(
            "vectors",
            artifact,
            policy,
            2_975,
            voprf.public_of(oprf).hex(),
            voprf.public_of(voprf.derive_key(bytes_of("randomness token seed"), b"vectors")).hex(),
            voprf.public_of(token_key).hex(),
            1_799_900_000,
            1_799_990_000,
            secondary,
        )
        texts = ["weather", "Zürich  HB", "日本語 検索", "x" * 254]
        users = [bytes_of(f"user {i}") for i in range(2)]
        made = [vector(job, typed, user, oprf, token_key) for user in users for typed in texts]
        sets.append({"document": job.sign(signer), "job": job.id.hex(), "reports": made})
    invitation = "00112233445566778899aabbccddeeff"
    community = Community("vectors", "", b"", bytes_of("community's signer"), "", b"", ())
    return {
        "keys": {
            "oprf_private": oprf.hex(),
            "oprf_public": voprf.public_of(oprf).hex(),
            "token_private": token_key.hex(),
            "token_public": voprf.public_of(token_key).hex(),
            "signer_private": signer.hex(),
            "server_private": bytes_of("server key").hex(),
            "server_public": hpke.public_of(bytes_of("server key")).hex(),
            "relay_private": bytes_of("relay key").hex(),
            "relay_public": hpke.public_of(bytes_of("relay key")).hex(),
        },
        "member": {
            "invitation": invitation,
            **{program: credential(invitation, program) for program in ("server", "randomness")},
            "listed": {program: member_of(credential(invitation, program)) for program in ("server", "randomness")},
            "signer": community.signer.hex(),
            "passphrase": "Zürich 1291",
            "user_secret": user_secret(community, invitation, "Zürich 1291").hex(),
        },
        "sets": sets,
    }


def as_text() -> str:
    return json.dumps(make(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(as_text())
