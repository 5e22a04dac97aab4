"""Hybrid public key encryption (RFC 9180), base mode: X25519-HKDF-SHA256 with ChaCha20-Poly1305, single messages."""

from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, KEMKeyPair, PyHPKEError

from searchveil.errors import InputError

KEY_BYTES = 32
OVERHEAD = 32 + 16  # the encapsulated key before, the tag after
_SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.CHACHA20_POLY1305)


class UnsealError(InputError):
    """A message that was not sealed to this key with this info and aad, or was changed on its way."""


class SealError(InputError):
    """A public key to which nothing can be sealed."""


def generate() -> tuple[bytes, bytes]:
    """A fresh pair of keys: (private, public)."""
    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def public_of(private: bytes) -> bytes:
    """The public key that belongs to a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def seal(public: bytes, info: bytes, aad: bytes, plaintext: bytes) -> bytes:
    """The encapsulated key (32 bytes), then the ciphertext and its tag."""
    return _seal(public, info, aad, plaintext, None)


def seal_with(ephemeral: bytes, public: bytes, info: bytes, aad: bytes, plaintext: bytes) -> bytes:
    """`seal` with a given ephemeral private key: for files of test vectors alone. Two messages under one would leak."""
    private = X25519PrivateKey.from_private_bytes(ephemeral)
    keys = KEMKeyPair(
        KEMKey.from_pyca_cryptography_key(private), KEMKey.from_pyca_cryptography_key(private.public_key())
    )
    return _seal(public, info, aad, plaintext, keys)


def unseal(private: bytes, info: bytes, aad: bytes, sealed: bytes) -> bytes:
    """What was sealed to the public key of this private one; an UnsealError if anything was changed."""
    try:
        recipient = _SUITE.create_recipient_context(sealed[:KEY_BYTES], _private(private), info=info)
        return recipient.open(sealed[KEY_BYTES:], aad=aad)
    except (PyHPKEError, ValueError) as error:
        raise UnsealError("a sealed message does not open: it is for another key or purpose, or was changed") from error


def _seal(public: bytes, info: bytes, aad: bytes, plaintext: bytes, ephemeral: KEMKeyPair | None) -> bytes:
    try:
        enc, sender = _SUITE.create_sender_context(_public(public), info=info, eks=ephemeral)
    except (PyHPKEError, ValueError) as error:
        raise SealError("this is no public key that a message can be sealed to") from error
    return enc + sender.seal(plaintext, aad=aad)


@lru_cache(maxsize=64)
def _public(public: bytes):  # type: ignore[no-untyped-def]  # pyhpke names no public type for it
    return _SUITE.kem.deserialize_public_key(public)


@lru_cache(maxsize=64)
def _private(private: bytes):  # type: ignore[no-untyped-def]
    return _SUITE.kem.deserialize_private_key(private)
