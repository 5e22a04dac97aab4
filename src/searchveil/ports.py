"""Ports of this machine for programs that are started in a moment."""

import socket
from typing import Self

LOOPBACK = "127.0.0.1"


class KeptPorts:
    """Free ports of 127.0.0.1 that nobody else is given before they are used, nor while their program is down.

    A socket that is bound and does not listen keeps its port: the system passes it over where somebody asks for any
    port, and still lets a program that was told this one listen there (both with SO_REUSEADDR, on Linux).
    """

    def __init__(self, number: int) -> None:
        self._sockets = [socket.socket() for _ in range(number)]
        for one in self._sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((LOOPBACK, 0))
        self.numbers = [int(one.getsockname()[1]) for one in self._sockets]

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
