"""Who is who: a party's folder with its key and certificate, and the certificates of the others, pinned.

Certificates are self-signed. There is no authority: a party trusts exactly the certificates that were put into its
folder, and the run file names their fingerprints.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from searchveil.atomic import atomic_path, write_atomically
from searchveil.collab.agreement import NAME
from searchveil.errors import Blank, Command, InputError, Text

KEY, CERTIFICATE, PINNED = "key.pem", "certificate.pem", "pinned"
VALID_DAYS = 730
BACKDATED = timedelta(days=1)  # a clock that is some hours off must not make a certificate of the future


@dataclass(frozen=True)
class Certificate:
    """A certificate in its file, of a name."""

    name: str
    pem: bytes

    @classmethod
    def read(cls, path: Path) -> "Certificate":
        try:
            pem = path.read_bytes()
            parsed = x509.load_pem_x509_certificate(pem)
        except OSError as problem:
            raise InputError(f"{path} cannot be read: {problem.strerror}") from problem
        except ValueError as problem:
            raise InputError(f"{path} is no certificate in PEM") from problem
        names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        name = str(names[0].value) if names else ""
        if not re.fullmatch(NAME, name) or not isinstance(parsed.public_key(), Ed25519PublicKey):
            raise InputError(f"{path} is a certificate, but none that searchveil collab init made")
        return cls(name, parsed.public_bytes(serialization.Encoding.PEM))

    @property
    def parsed(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.pem)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.parsed.public_bytes(serialization.Encoding.DER))

    def check_valid(self) -> None:
        """Refuse one that has expired, by this machine's clock."""
        until = self.parsed.not_valid_after_utc
        if until < datetime.now(UTC):
            raise InputError(
                f"the certificate of {self.name} has expired on {until.date().isoformat()}",
                instead="make a new folder, exchange certificates and agree on a run file again",
            )

    def check_signature(self, signature: bytes, message: bytes) -> None:
        """InvalidSignature, unless the holder of this certificate's key signed the message."""
        key = self.parsed.public_key()
        assert isinstance(key, Ed25519PublicKey)
        key.verify(signature, message)


def fingerprint_of(der: bytes) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(der)
    return f"sha256:{digest.finalize().hex()}"


@dataclass(frozen=True)
class Identity:
    """A folder: `key.pem` stays in it, `certificate.pem` is for the others, theirs are in `pinned/`."""

    folder: Path

    @property
    def key_path(self) -> Path:
        return self.folder / KEY

    @property
    def certificate_path(self) -> Path:
        return self.folder / CERTIFICATE

    @property
    def certificate(self) -> Certificate:
        if not self.certificate_path.exists():
            raise InputError(
                f"{self.folder} is no folder of a party: it has no {CERTIFICATE}",
                instead="make one: " + _init(self.folder, "name", "NAME"),
            )
        return Certificate.read(self.certificate_path)

    @property
    def name(self) -> str:
        return self.certificate.name

    def sign(self, message: bytes) -> bytes:
        key = serialization.load_pem_private_key(self.key_path.read_bytes(), None)
        assert isinstance(key, Ed25519PrivateKey)
        return key.sign(message)

    def pinned(self, name: str, fingerprint: str) -> Certificate:
        """The certificate of another, which must be the one that the run file names."""
        if name == self.name:
            certificate, place = self.certificate, self.certificate_path
        else:
            place = self.folder / PINNED / f"{name}.pem"
            if not place.exists():
                raise InputError(
                    f"{self.folder} has no certificate of {name}",
                    instead=f"get its {CERTIFICATE} and type " + _init(self.folder, "pin", "FILE"),
                )
            certificate = Certificate.read(place)
        if certificate.fingerprint != fingerprint:
            raise InputError(
                f"{place} has the fingerprint {certificate.fingerprint}, and the run file names {fingerprint} for "
                f"{name}"
            )
        return certificate

    def pin(self, path: Path) -> Certificate:
        """Trust a certificate from now on. Another one of the same name is not replaced by mistake."""
        own, certificate = self.name, Certificate.read(path)
        place = self.folder / PINNED / f"{certificate.name}.pem"
        if certificate.name == own:
            raise InputError(f"{path} is a certificate of {own}, which is the name of this party itself")
        if place.exists() and Certificate.read(place).pem != certificate.pem:
            raise InputError(f"{place} is another certificate of {certificate.name}", instead="remove it first")
        place.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(place, certificate.pem.decode())
        return certificate


def _init(folder: Path, option: str, value: str) -> Text:
    return Text((Command(f"collab init {folder}", {option: Blank(value)}),))


def create(folder: Path, name: str, *, now: datetime | None = None, days: int = VALID_DAYS) -> Identity:
    """A new folder with a fresh key and a certificate for it."""
    if not re.fullmatch(NAME, name):
        raise InputError(
            f"'{name}' is no name of a party: small letters, digits and hyphens, at most 31", parameter="name"
        )
    if (folder / KEY).exists():
        raise InputError(f"{folder} has a key already", instead="choose another folder, or pin certificates in it")
    key = Ed25519PrivateKey.generate()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = now or datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / PINNED).mkdir(mode=0o700, parents=True, exist_ok=True)
    with atomic_path(folder / KEY) as partial:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
    (folder / KEY).chmod(0o600)  # whatever the usual permissions of outputs are
    write_atomically(folder / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM).decode())
    return Identity(folder)
