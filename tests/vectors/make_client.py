"""Writes what else a client must do as ours does: normal forms, artifacts, personal patterns, jobs, tokens, blinds.

python tests/vectors/make_client.py           (tests/crowd/test_vectors.py compares)
"""

import hmac
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from make_crowd import bytes_of

from searchveil.crowd.artifacts import KINDS, Search, normal
from searchveil.crowd.choice import candidates, sends
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import Policy, make_policy
from searchveil.crypto import hpke, voprf
from searchveil.log.personal import personal_texts

FILE = Path(__file__).parent / "crowd" / "client.json"
START = 1_800_000_000

TEXTS = [
    "  New   YORK ",
    "Zürich  HB",
    "Zu\u0308rich hb",
    "ＦＵＬＬ　ｗｉｄｔｈ",
    "ﬁne ﬀ ①②",
    "ΟΔΟΣ ΟΔΥΣΣΕΥΣ Σ",
    "İstanbul I ı",
    "a\u00a0b\u2003c\u3000d\u1680e",
    "a\x1cb\x1db\x1ec\x1fd\x85e",
    "zero\u200bwidth\ufeffmark",
    "한국어 한국",
    "ǅ Ǆ ǆ ſ ẞ ß",
    "👩‍👩‍👧 emoji ☕️",
    "\u0345\u0301 Ἄ ᾳ",
    "Å Å Å",
    "ﷺ",
    "\t\n",
    "",
]

PERSONAL = [
    "weather",
    "jane.roe@example.org",
    "Jane.Roe@Example.ORG mail",
    "jane at example dot org",
    "meet at 5 dot com",
    "(555) 123-4567",
    "+49 30 1234567",
    "0041 44 668 18 00",
    "123-45-6789",
    "123456789",
    "4111 1111 1111 1111",
    "4111 1111 1111 1112",
    "5500-0000-0000-0004 lost card",
    "iso 9001 2015",
    "1914 1918",
    "room 101 x 2500",
    "x" * 1000,
    "x" * 1001,
    "٤١١١",
    "ｊａｎｅ＠ｅｘａｍｐｌｅ．ｏｒｇ",
]

LOG = [
    Search("Jaguar", START, "https://cats.example/a?b#c", 2),
    Search("Jaguar", START, "https://cats.example/z", 11),
    Search("jaguar CAR", START + 60.5, "http://user@cars.example:8080/x y", 1),
    Search("Jaguar\tcar", START + 90, None, None),
    Search("weather", START + 95, "HTTPS://Weather.Example", 4),
    Search("weather", START + 4000, "https://weather.example/", 3),
    Search("Weather ", START + 4100, "https://weather.example/", None),
    Search("x" * 255, START + 4200, None, None),
    Search("  ", START + 4300, "https://blank.example/", 1),
    Search("no time", None, "//host.example/only", 7),
    Search("no time", None, "no-address", 7),
    Search("late", START + 9000, None, None),
    Search("jaguar", START + 9000, "https://cats.example/a?b#c", 2),
    Search("odd", START + 9100, "http://[broken", 1),
    Search("odd", START + 9100, "http://[2001:DB8::1]:8080/x", 1),
    Search("odd", START + 9100, "https://me:secret@Bank.example/?a@b", 2),
    Search("odd", START + 9100, "shop.example:80/cart?me@home", 2),
    Search("odd", START + 9100, "mailto:bob@mail.example", 3),
    Search("odd", START + 9100, "/no/host", 3),
    Search("\U0001f600 z", START + 9500, None, None),
    Search("\uff5e z", START + 9500, None, None),
]


def job(policy: Policy, artifact: str = "query", **more: Any) -> Job:
    randomness, its_tokens, tokens = (
        voprf.public_of(voprf.derive_key(bytes_of(f"{name} seed"), b"vectors")).hex() for name in ("oprf", "a", "b")
    )
    return Job("vectors", artifact, policy, 2_975, randomness, its_tokens, tokens, 1_799_900_000, 1_799_990_000, **more)


def policies() -> list[Policy]:
    return [
        make_policy("ST_u", epsilon=1, delta=1e-6),
        make_policy("ST_u", epsilon=0.5, delta=1e-8, p=0.05, per_user=3),
        make_policy("ST_u", epsilon=2, delta=1e-6, p=0.25, per_user=2, colluding=2),
        make_policy("DP_u", epsilon=1, delta=1e-6, per_user=3, k=4),
        make_policy("DP_a", epsilon=0.7, delta=1e-7, per_user=2, k=3),
        make_policy("FT_u", k=5, per_user=3),
        make_policy("FT_a", k=2),
    ]


def weakened(policy: Policy) -> list[Policy]:
    """The nearest ones that break the promise."""
    if policy.name == "ST_u":
        return [replace(policy, k=policy.k - 1), replace(policy, p=min(0.9, 3 * policy.p))]
    if policy.noisy:
        return [replace(policy, threshold=policy.threshold - 1), replace(policy, k=policy.k + 3)]
    return [replace(policy, k=1), replace(policy, k=10_001), replace(policy, per_user=10_001)]


def taken(policy: Policy, artifact: str, **more: Any) -> dict[str, Any]:
    asked = job(policy, artifact, **more)
    user = bytes_of("user 0")
    found = candidates(asked, LOG)
    chosen, too_long = found.taken, found.too_long
    return {
        "text": asked.text,
        "too_long": too_long,
        "artifacts": [{"text": one.text, "typed": one.typed} for one in chosen],
        "sent": [sends(asked, user, one.text) for one in chosen],
    }


def tokens() -> dict[str, Any]:
    """A batch of tokens: what is kept, what is sent, what comes back, and what they are then."""
    private = voprf.derive_key(bytes_of("token seed"), b"vectors")
    nonces = [bytes_of(f"nonce {i}") for i in range(3)]
    wide = [bytes_of(f"wide {i}") * 2 for i in range(3)]
    blinded = [voprf.blind(nonce, voprf.to_blind(one)) for nonce, one in zip(nonces, wide, strict=True)]
    elements = [one.element for one in blinded]
    evaluated, proof = voprf.evaluate(private, elements, voprf.to_blind(bytes_of("proof") * 2))
    answer = b"".join(evaluated) + proof
    outputs = voprf.finalize(voprf.public_of(private), nonces, blinded, evaluated, proof)
    rows = zip(nonces, blinded, strict=True)
    return {
        "public": voprf.public_of(private).hex(),
        "wide": [one.hex() for one in wide],
        "request": " ".join((nonce + one.blind + one.element).hex() for nonce, one in rows),
        "body": b"".join(elements).hex(),
        "answer": answer.hex(),
        "tokens": [(nonce + output).hex() for nonce, output in zip(nonces, outputs, strict=True)],
    }


def blinds() -> list[dict[str, Any]]:
    kept, token, found = bytes_of("blinding"), bytes_of("token", 32) * 3, []
    for number in (0, 63):
        seed = b"searchveil crowd blind v1" + token + number.to_bytes(4, "big")
        blind = voprf.to_blind(hmac.digest(kept, seed, "sha512"))
        found.append({"kept": kept.hex(), "token": token.hex(), "number": number, "blind": blind.hex()})
    return found


def epochs() -> dict[str, str]:
    signer = Ed25519PrivateKey.from_private_bytes(bytes_of("randomness signer"))
    text = json.dumps({"epochs": {"2975": {"oprf": "00", "token": "11", "ends": 1}}, "batch": 64, "batches": 200})
    signature = signer.sign(b"searchveil crowd epochs v1\n" + text.encode()).hex()
    return {"epochs": text, "signature": signature, "signer": signer.public_key().public_bytes_raw().hex()}


def layers() -> dict[str, Any]:
    """Sealed to the server by way of relay 2, then relay 5; the ephemeral keys in the order in which they are drawn."""
    from searchveil.crowd.report import TO_RELAY, TO_SERVER

    report = bytes_of("report")
    drawn = [bytes_of(f"ephemeral {i}") for i in range(3)]
    server, first, second = (hpke.public_of(bytes_of(f"{name} key")) for name in ("server", "relay 2", "relay 5"))
    sealed = hpke.seal_with(drawn[0], server, TO_SERVER, b"", report)
    sealed = hpke.seal_with(drawn[1], second, TO_RELAY, b"", b"\x00" + sealed)
    sealed = hpke.seal_with(drawn[2], first, TO_RELAY, b"", b"\x05" + sealed)
    return {
        "report": report.hex(),
        "server": server.hex(),
        "relays": [{"number": 2, "key": first.hex()}, {"number": 5, "key": second.hex()}],
        "ephemeral": [one.hex() for one in drawn],
        "wrapped": sealed.hex(),
    }


def make() -> dict[str, Any]:
    signer = bytes_of("signer")
    good = policies()
    simple = make_policy("FT_u", k=5)
    instances = make_policy("FT_a", k=2)
    documents = [job(policy, artifact, domains=True).sign(signer) for policy in good for artifact in KINDS]
    documents += [job(policy, secondary_k=4).sign(signer) for policy in (simple, instances)]
    key = Ed25519PrivateKey.from_private_bytes(signer)

    def signed(text: str) -> str:
        return json.dumps({"job": text, "signature": key.sign(b"searchveil crowd job v1\n" + text.encode()).hex()})

    text = job(simple).text
    forms = [personal_texts(pa.array(texts)).to_pylist() for texts in (PERSONAL, [normal(one) for one in PERSONAL])]
    return {
        "signer": key.public_key().public_bytes_raw().hex(),
        "user": bytes_of("user 0").hex(),
        "normal": [[one, normal(one)] for one in TEXTS],
        "personal": [[one, any(found)] for one, *found in zip(PERSONAL, *forms, strict=True)],
        "log": [one._asdict() for one in LOG],
        "taken": [
            taken(policy, artifact, **more)
            for policy in (simple, instances, good[0], good[1])
            for artifact in KINDS
            for more in ({}, {"domains": True, "recent": True})
        ],
        "jobs": [{"document": one, "id": Job.from_text(json.loads(one)["job"]).id.hex()} for one in documents],
        "broken": {
            "job_promise": [signed(job(worse).text) for policy in good for worse in weakened(policy)]
            + [
                signed(job(good[0], secondary_k=3).text),
                *(signed(job(simple, secondary_k=k).text) for k in (1, 10_001)),
            ],
            "job_words": [signed(text.replace("Encrypted: the", "Public: the"))],
            "job_unreadable": [
                signed(text.replace('"version":1', '"version":2')),
                signed(text.replace('"domains":false', '"domains":false,"more":1')),
                signed(replace(job(simple), expires=1_799_900_000).text),
            ],
            "job_forged": [
                json.dumps({"job": text, "signature": "00" * 64}),
                json.dumps(
                    {
                        "job": text.replace("vectors", "others"),
                        "signature": key.sign(b"searchveil crowd job v1\n" + text.encode()).hex(),
                    }
                ),
                json.dumps({"job": text, "signature": key.sign(text.encode()).hex()}),
            ],
        },
        "tokens": tokens(),
        "blinds": blinds(),
        "epochs": epochs(),
        "layers": layers(),
    }


def as_text() -> str:
    return json.dumps(make(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(as_text())
