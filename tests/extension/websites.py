"""All of the web for a browser under test: a proxy that answers every https address itself, with search pages.

The rules stand as they are shipped. Whatever host a browser asks for on its own is answered with nothing; no request
leaves this machine.
"""

import datetime
import socket
import ssl
import threading
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from search_pages import PAGES, guessing, plain


class Websites:
    """Listens from the beginning; `close` ends it."""

    def __init__(self, home: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(_certificate(home))
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        self.seen: list[str] = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(60)
                method, target, _ = _head(connection)[0].split(" ", 2)
                if method != "CONNECT":
                    return
                host = target.rsplit(":", 1)[0]
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                with self.context.wrap_socket(connection, server_side=True) as secured:
                    while self._answer(secured, host):
                        pass
            except (OSError, ValueError):  # the browser has gone, or gave up
                return

    def _answer(self, connection: socket.socket, host: str) -> bool:
        lines = _head(connection)
        method, target, _ = lines[0].split(" ", 2)
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        body = b""
        while len(body) < int(headers.get("content-length", 0)):
            body += connection.recv(65_536)
        self.seen.append(f"{host}{target}")
        given = parse_qs(urlsplit(target).query) | parse_qs(body.decode())
        query = next((given[name][0] for name in ("q", "query", "search") if name in given), "")
        if urlsplit(target).path == "/url" and "url" in given:  # a redirect, as results lead through
            connection.sendall(
                f"HTTP/1.1 302 Found\r\nLocation: {given['url'][0]}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            return True
        page = guessing if urlsplit(target).path == "/guessing" else PAGES.get(host)
        content = "" if page is None and not host.endswith(".example") else (page or plain)(query)
        text = f"<!doctype html><meta charset=utf-8><title>{escape(host)}</title><link rel=icon href=data:,>{content}"
        sent = text.encode()
        status = "200 OK" if content else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(sent)}\r\n\r\n"
        connection.sendall(head.encode() + (b"" if method == "HEAD" else sent))
        return True


def _head(connection: socket.socket) -> list[str]:
    """Request line and headers, byte by byte: what follows belongs to somebody else."""
    text = b""
    while not text.endswith(b"\r\n\r\n"):
        part = connection.recv(1)
        if not part:
            raise OSError("closed")
        text += part
    return text.decode().strip().split("\r\n")


def _certificate(home: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in (*PAGES, "*.example")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = home / "websites.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path
