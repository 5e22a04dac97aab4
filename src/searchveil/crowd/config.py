"""Configuration: one TOML file per program with its private keys, and one public file for all members."""

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from searchveil.crowd.tokens import credential, member_of, new_invitation
from searchveil.crypto import hpke
from searchveil.errors import InputError

WEEK = 7 * 24 * 3600
MOST_RELAYS = 255  # a report names the next one in a byte
MOST_HOPS = 5
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # nobody is on the way there


@dataclass(frozen=True)
class RelayAddress:
    number: int
    url: str
    key: bytes


@dataclass(frozen=True)
class Community:
    """What every member knows: where the programs are, and their public keys."""

    name: str
    server: str
    server_key: bytes
    signer: bytes
    randomness: str
    randomness_signer: bytes
    relays: tuple[RelayAddress, ...]
    hops: int = 1  # relays that each report passes

    def to_json(self) -> str:
        record = {
            "name": self.name,
            "server": self.server,
            "server_key": self.server_key.hex(),
            "signer": self.signer.hex(),
            "randomness": self.randomness,
            "randomness_signer": self.randomness_signer.hex(),
            "relays": [{"number": one.number, "url": one.url, "key": one.key.hex()} for one in self.relays],
            "hops": self.hops,
        }
        return json.dumps(record, indent=2) + "\n"

    def check_addresses(self) -> None:
        """A credential never travels in the clear."""
        for url in (self.server, self.randomness, *(one.url for one in self.relays)):
            parts = urlsplit(url)
            if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
                raise InputError(
                    f"'{url}' is not https, so others on the way would see what you show there",
                    parameter="community",
                    instead="ask who made this file for addresses with https",
                )

    @classmethod
    def read(cls, path: Path) -> "Community":
        try:
            return cls.of(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is not the file of a community", parameter="community") from error

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Community":
        try:
            relays = tuple(RelayAddress(one["number"], one["url"], _key(one["key"])) for one in record["relays"])
            found = cls(
                record["name"],
                record["server"],
                _key(record["server_key"]),
                _key(record["signer"]),
                record["randomness"],
                _key(record["randomness_signer"]),
                relays,
                record["hops"],
            )
            numbers = {one.number for one in relays}
            texts = (found.name, found.server, found.randomness, *(one.url for one in relays))
            good = all(isinstance(one, str) for one in texts) and numbers <= {*range(1, MOST_RELAYS + 1)}
            if not good or len(numbers) < len(relays) or found.hops not in range(1, min(len(relays), MOST_HOPS) + 1):
                raise ValueError
        except (ValueError, KeyError, TypeError) as error:
            raise InputError("this is not the record of a community", parameter="community") from error
        return found


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != 32:
        raise ValueError
    return key


def read_config(path: Path, *needed: str) -> dict[str, Any]:
    """The settings in a TOML file; what is missing is named."""
    try:
        settings = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}", parameter="config") from error
    for name in needed:
        if name not in settings:
            raise InputError(f"{path} has no setting '{name}' (docs/run-a-crowd.md)", parameter="config")
    # Files are named relative to the configuration.
    for name in ("database", "members", "certificate", "certificate_key"):
        if name in settings and "://" not in settings[name]:
            settings[name] = str((path.parent / settings[name]).resolve())
    return settings


def key_in(settings: dict[str, Any], name: str) -> bytes:
    """A key of 32 bytes, which `searchveil crowd init` wrote in hexadecimal."""
    try:
        key = bytes.fromhex(settings[name])
    except (TypeError, ValueError):
        key = b""
    if len(key) != 32:
        raise InputError(f"the setting '{name}' must be 64 hexadecimal digits, as crowd init wrote it")
    return key


def members_in(path: str | Path) -> Callable[[], frozenset[str]]:
    """The members listed in a file, one hash a line; read anew when it changes."""
    if not Path(path).is_file():
        raise InputError(f"{path}: there is no such list of members", parameter="members")
    seen: tuple[tuple[int, int], frozenset[str]] = ((-1, -1), frozenset())

    def members() -> frozenset[str]:
        nonlocal seen
        state = Path(path).stat()
        changed = state.st_mtime_ns, state.st_size
        if changed != seen[0]:
            seen = changed, frozenset(Path(path).read_text().split())
        return seen[1]

    return members


def invite(folder: Path, number: int) -> list[str]:
    """New invitations, and their hashes in the lists of the server and the randomness server."""
    invitations = [new_invitation() for _ in range(number)]
    for program in ("server", "randomness"):
        with (folder / f"{program}-members.txt").open("a") as file:
            file.writelines(member_of(credential(one, program)) + "\n" for one in invitations)
    return invitations


@dataclass(frozen=True)
class Addresses:
    """Where the programs listen, and under which URLs others reach them."""

    server: str = "http://127.0.0.1:8700"
    randomness: str = "http://127.0.0.1:8701"
    relays: Sequence[str] = ("http://127.0.0.1:8710",)


def init(
    folder: Path,
    name: str,
    addresses: Addresses,
    *,
    epoch_seconds: int = WEEK,
    hops: int = 1,
    hold_seconds: float = 2.0,
    batches: int | None = None,
) -> Community:
    """Make the configuration of every program, with fresh keys, and the members' file.

    `batches` is how many of them the randomness server evaluates for a member in an epoch, where not the usual number.
    """
    if not 1 <= hops <= min(len(addresses.relays), MOST_HOPS):
        raise InputError(f"{len(addresses.relays)} relays cannot make a way of {hops}", parameter="hops")
    if len(addresses.relays) > MOST_RELAYS:
        raise InputError(f"a community has at most {MOST_RELAYS} relays", parameter="relay")
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "community.json").exists():
        raise InputError(f"{folder} holds a community already; choose another folder")
    server_private, server_public = hpke.generate()
    signer, randomness_signer = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    relay_keys = [hpke.generate() for _ in addresses.relays]
    community = Community(
        name,
        addresses.server,
        server_public,
        signer.public_key().public_bytes_raw(),
        addresses.randomness,
        randomness_signer.public_key().public_bytes_raw(),
        tuple(RelayAddress(i, url, relay_keys[i - 1][1]) for i, url in enumerate(addresses.relays, 1)),
        hops,
    )
    _write(
        folder / "server.toml",
        {
            "listen": _listen(addresses.server),
            "database": "server.sqlite",
            "members": "server-members.txt",
            "community": name,
            "private_key": server_private.hex(),
            "signing_key": signer.private_bytes_raw().hex(),
            "randomness": addresses.randomness,
            "randomness_signer": community.randomness_signer.hex(),
        },
    )
    _write(
        folder / "randomness.toml",
        {
            "listen": _listen(addresses.randomness),
            "database": "randomness.sqlite",
            "members": "randomness-members.txt",
            "signing_key": randomness_signer.private_bytes_raw().hex(),
            "epoch_seconds": epoch_seconds,
            **({} if batches is None else {"batches": batches}),
        },
    )
    for i, url in enumerate(addresses.relays, 1):
        hop_urls = {"0": addresses.server, **{str(j): other for j, other in enumerate(addresses.relays, 1) if j != i}}
        _write(
            folder / f"relay-{i}.toml",
            {
                "listen": _listen(url),
                "private_key": relay_keys[i - 1][0].hex(),
                "hold_seconds": hold_seconds,
                "at_least": 200,
                "hops": hop_urls,
            },
        )
    for program in ("server", "randomness"):
        (folder / f"{program}-members.txt").touch()
    (folder / "community.json").write_text(community.to_json())
    return community


def _listen(url: str) -> str:
    """The address to listen on, for a program that others reach under this URL."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise InputError(f"'{url}' is no address such as https://crowd.example:8700")
    # What a host's own name stands for on the host itself is often the loopback alone.
    host = parts.hostname if parts.hostname in ("localhost", "127.0.0.1") else "0.0.0.0"
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def listening(settings: dict[str, Any]) -> tuple[str, int]:
    host, _, port = str(settings["listen"]).rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"'{settings['listen']}' is no place to listen on; listen = \"0.0.0.0:8700\" would be one")
    return host.strip("[]"), int(port)


def _write(path: Path, settings: dict[str, Any]) -> None:
    """TOML, readable by its owner alone: it holds private keys."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items() if not isinstance(value, dict)]
    for name, table in settings.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n")
