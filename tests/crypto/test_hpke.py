"""HPKE against RFC 9180, and what must not open."""

import pytest

from searchveil.crypto import hpke

# RFC 9180, appendix A.2.1 (base mode, sequence number 0)
RFC = {
    name: bytes.fromhex(value)
    for name, value in {
        "skE": "f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600",
        "skR": "8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb",
        "pkR": "4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a",
        "enc": "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a",
        "info": "4f6465206f6e2061204772656369616e2055726e",
        "aad": "436f756e742d30",
        "pt": "4265617574792069732074727574682c20747275746820626561757479",
        "ct": "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28",
    }.items()
}


def test_the_vector_of_the_rfc_opens() -> None:
    assert hpke.unseal(RFC["skR"], RFC["info"], RFC["aad"], RFC["enc"] + RFC["ct"]) == RFC["pt"]
    assert hpke.public_of(RFC["skR"]) == RFC["pkR"]


def test_the_vector_of_the_rfc_is_made() -> None:
    sealed = hpke.seal_with(RFC["skE"], RFC["pkR"], RFC["info"], RFC["aad"], RFC["pt"])
    assert sealed == RFC["enc"] + RFC["ct"]


def test_a_sealed_message_opens_with_the_same_key_info_and_aad_alone() -> None:
    private, public = hpke.generate()
    sealed = hpke.seal(public, b"purpose", b"header", b"text")
    assert len(sealed) == len(b"text") + hpke.OVERHEAD
    assert hpke.unseal(private, b"purpose", b"header", sealed) == b"text"
    assert hpke.seal(public, b"purpose", b"header", b"text") != sealed
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for wrong in (
        (hpke.generate()[0], b"purpose", b"header", sealed),
        (private, b"another", b"header", sealed),
        (private, b"purpose", b"another", sealed),
        (private, b"purpose", b"header", changed),
        (private, b"purpose", b"header", b"short"),
        (private, b"purpose", b"header", bytes(64)),
    ):
        with pytest.raises(hpke.UnsealError):
            hpke.unseal(*wrong)
