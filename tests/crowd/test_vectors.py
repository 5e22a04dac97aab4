"""The checked-in vectors are what this implementation makes, and open as they say."""

import json
import sys
from pathlib import Path

import pytest

from searchveil.crowd.jobs import read_job
from searchveil.crowd.report import REPORT_BYTES, Report, open_text, unseal, unwrap
from searchveil.crypto import shamir
from searchveil.errors import InputError

VECTORS = Path(__file__).parents[1] / "vectors"
sys.path.insert(0, str(VECTORS))

import make_client  # noqa: E402
import make_crowd  # noqa: E402


def test_the_file_is_what_this_code_makes() -> None:
    assert make_crowd.FILE.read_text() == make_crowd.as_text(), "python tests/vectors/make_crowd.py"


@pytest.mark.slow
def test_the_file_for_clients_is_what_this_code_makes() -> None:
    assert make_client.FILE.read_text() == make_client.as_text(), "python tests/vectors/make_client.py"


@pytest.mark.slow
def test_what_clients_must_refuse_is_refused_here() -> None:
    vectors = json.loads(make_client.FILE.read_text())
    signer = bytes.fromhex(vectors["signer"])
    for one in vectors["jobs"]:
        assert read_job(one["document"], signer).id.hex() == one["id"]
    for document in (one for documents in vectors["broken"].values() for one in documents):
        with pytest.raises(InputError):
            read_job(document, signer)


def test_what_travels_opens_as_the_file_says() -> None:
    vectors = json.loads(make_crowd.FILE.read_text())
    keys = {name: bytes.fromhex(value) for name, value in vectors["keys"].items()}
    for one in vectors["sets"]:
        read_job(one["document"], _public(keys["signer_private"]))
        for entry in one["reports"]:
            hop, sealed = unwrap(keys["relay_private"], bytes.fromhex(entry["wrapped"]))
            assert hop == 0
            written = unseal(keys["server_private"], sealed)
            assert (written.hex(), len(written)) == (entry["report"], REPORT_BYTES)
            report = Report.from_bytes(written)
            secret = bytes.fromhex(entry["secret"])
            assert open_text(secret, report.primary) == entry["text"]
            assert report.y == shamir.share(secret, entry["share"]["k"], report.x)


def _public(private: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
