"""Mutual TLS 1.3 in which the pinned certificates are all that is trusted."""

import ssl
from collections.abc import Iterable

from searchveil.collab.identity import Certificate, Identity


def for_coordinator(identity: Identity, parties: Iterable[Certificate]) -> ssl.SSLContext:
    """A server to which only these parties can talk."""
    return _context(ssl.PROTOCOL_TLS_SERVER, identity, parties)


def for_party(identity: Identity, coordinator: Certificate) -> ssl.SSLContext:
    """A client that talks to this coordinator only, under whatever address it is reached."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, identity, [coordinator])


def _context(protocol: int, identity: Identity, trusted: Iterable[Certificate]) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is pinned, which says more than a name in it
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata="".join(certificate.pem.decode() for certificate in trusted))
    context.load_cert_chain(identity.certificate_path, identity.key_path)
    return context
