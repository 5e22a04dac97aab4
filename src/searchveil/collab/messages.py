"""What goes over the wire: typed, versioned, numbered and limited messages, bound to a run, a session and a phase.

A message is the length of its header (4 bytes), the header as JSON, and the payload. Who sends to whom numbers the
messages from 0; a stream that is longer than one message is cut into parts.
"""

import json
import struct
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from searchveil.collab.agreement import Name

VERSION = 1
PART = 1 << 20  # bytes of a payload at most, before it is sealed
SEAL = 16  # what sealing adds
LARGEST_HEADER = 2000
LARGEST = 4 + LARGEST_HEADER + PART + SEAL

Phase = Literal["keys", "blind", "universe", "sum", "open", "shuffle", "transform", "draw", "union", "agree"]
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class RunEnded(Exception):  # noqa: N818 (a normal outcome, told in one line)
    """The run is over for everybody: one line that says why, without a private value."""


class Refused(Exception):  # noqa: N818
    """What came is not what the protocol allows here."""


class Hello(BaseModel):
    """A party's key for this run, signed with the key of its certificate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    run: Digest
    name: Name
    key: Digest  # of X25519, 32 bytes
    signature: Annotated[str, StringConstraints(pattern="^[0-9a-f]{128}$")]

    @property
    def signed(self) -> bytes:
        return signed_by(self.run, self.name, self.key)


def signed_by(run: str, name: str, key: str) -> bytes:
    return f"searchveil collab hello {VERSION}\n{run}\n{name}\n{key}\n".encode()


class Header(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    run: Digest
    session: Digest
    phase: Phase
    topic: Annotated[str, StringConstraints(pattern="^[a-z0-9-]{1,40}$")]
    sender: Name
    recipient: Name
    number: Annotated[int, Field(ge=0)]
    part: Annotated[int, Field(ge=0)]
    last: bool
    size: Annotated[int, Field(ge=0, le=PART + SEAL)]

    def encode(self) -> bytes:
        return self.model_dump_json().encode()


def pack(header: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(header)) + header + payload


def unpack(message: bytes) -> tuple[Header, bytes, bytes]:
    """The header, its bytes as they came, and the payload; or Refused."""
    if len(message) > LARGEST:
        raise Refused(f"a message of {len(message)} bytes, more than {LARGEST}")
    if len(message) < 4:
        raise Refused("a message that is cut off")
    (length,) = struct.unpack(">I", message[:4])
    raw, payload = message[4 : 4 + length], message[4 + length :]
    if length > LARGEST_HEADER or len(raw) < length:
        raise Refused("a message that is cut off or whose header is too long")
    try:
        header = Header.model_validate_json(raw)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise Refused(f"a malformed header ({'.'.join(map(str, first['loc'])) or 'no JSON'})") from None
    if header.size != len(payload):
        raise Refused(f"a payload of {len(payload)} bytes where {header.size} were announced")
    return header, raw, payload


def read_json(raw: bytes | str) -> Any:
    """Of another party's making: ValueError for whatever is no JSON, however deep it is nested."""
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def check_part(header: Header, size: int) -> None:
    """All parts of a stream but the last are full: nobody is kept busy with empty ones."""
    if not header.last and size != PART:
        raise Refused(f"{header.sender} sent a part of {header.phase}/{header.topic} that is not full")


def parts_of(size: int) -> int:
    """How many messages a stream of so many bytes takes."""
    return max(1, -(-size // PART))
