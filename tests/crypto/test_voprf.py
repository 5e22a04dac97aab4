"""The VOPRF against RFC 9497 (appendix A.1.2), and what must be refused."""

import pytest

from searchveil.crypto import voprf

SEED, INFO = bytes([0xA3]) * 32, b"test key"
PRIVATE = bytes.fromhex("e6f73f344b79b379f1a0dd37e07ff62e38d9f71345ce62ae3a9bc60b04ccd909")
PUBLIC = bytes.fromhex("c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e")
TEXTS = [b"\x00", b"\x5a" * 17]
BLINDS = [
    bytes.fromhex("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706"),
    bytes.fromhex("222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e"),
]
ELEMENTS = [  # of the batch; the second one of the single tests has the first blind
    bytes.fromhex("863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945"),
    bytes.fromhex("90a0145ea9da29254c3a56be4fe185465ebb3bf2a1801f7124bbbadac751e654"),
]
EVALUATED = [
    bytes.fromhex("aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e"),
    bytes.fromhex("cc5ac221950a49ceaa73c8db41b82c20372a4c8d63e5dded2db920b7eee36a2a"),
]
OUTPUTS = [
    bytes.fromhex(
        "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d"
        "a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c"
    ),
    bytes.fromhex(
        "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60"
        "356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6"
    ),
]
PROOF_OF_ONE = bytes.fromhex(
    "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd06"
    "6d4346421d17bf5117a2a1ff0fcb2a759f58a539dfbe857a40bce4cf49ec600d"
)
PROOF_OF_BOTH = bytes.fromhex(
    "cc203910175d786927eeb44ea847328047892ddf8590e723c37205cb74600b0a"
    "5ab5337c8eb4ceae0494c2cf89529dcf94572ed267473d567aeed6ab873dee08"
)
R_OF_BOTH = bytes.fromhex("419c4f4f5052c53c45f3da494d2b67b220d02118e0857cdbcf037f9ea84bbe0c")


def test_the_key_of_the_rfc() -> None:
    assert voprf.derive_key(SEED, INFO) == PRIVATE
    assert voprf.public_of(PRIVATE) == PUBLIC


def test_one_input_as_in_the_rfc() -> None:
    blinded = voprf.blind(TEXTS[0], BLINDS[0])
    assert blinded.element == ELEMENTS[0]
    evaluated, proof = voprf.evaluate(PRIVATE, [blinded.element], BLINDS[1])
    assert (evaluated, proof) == ([EVALUATED[0]], PROOF_OF_ONE)
    assert voprf.finalize(PUBLIC, TEXTS[:1], [blinded], evaluated, proof) == OUTPUTS[:1]


def test_a_batch_as_in_the_rfc() -> None:
    blinded = [voprf.blind(text, scalar) for text, scalar in zip(TEXTS, BLINDS, strict=True)]
    assert [one.element for one in blinded] == ELEMENTS
    evaluated, proof = voprf.evaluate(PRIVATE, ELEMENTS, R_OF_BOTH)
    assert (evaluated, proof) == (EVALUATED, PROOF_OF_BOTH)
    assert voprf.finalize(PUBLIC, TEXTS, blinded, evaluated, proof) == OUTPUTS
    assert [voprf.output(PRIVATE, text) for text in TEXTS] == OUTPUTS


def test_an_answer_of_another_key_is_refused() -> None:
    blinded = [voprf.blind(b"a"), voprf.blind(b"b")]
    elements = [one.element for one in blinded]
    evaluated, proof = voprf.evaluate(PRIVATE, elements)
    other, other_proof = voprf.evaluate(voprf.generate(), elements)
    for answer in (
        (other, other_proof),
        ([evaluated[0], other[1]], proof),
        (evaluated[::-1], proof),
        (evaluated, bytes(64)),
        (evaluated, proof[:63]),
        (evaluated[:1], proof),
        ([evaluated[0], bytes(32)], proof),
    ):
        with pytest.raises(voprf.VoprfError):
            voprf.finalize(PUBLIC, [b"a", b"b"], blinded, *answer)


SECOND_ENCODING = ELEMENTS[0][:-1] + bytes([ELEMENTS[0][-1] | 0x80])


@pytest.mark.parametrize("element", [bytes(32), b"\xff" * 32, b"short", SECOND_ENCODING])
def test_the_server_refuses_what_is_no_point(element: bytes) -> None:
    with pytest.raises(voprf.VoprfError):
        voprf.evaluate(PRIVATE, [element])
    with pytest.raises(voprf.VoprfError):
        voprf.evaluate(PRIVATE, [])


def test_blinding_hides_the_input() -> None:
    assert voprf.blind(b"same").element != voprf.blind(b"same").element
