"""A port that is kept is given to nobody else, and whoever is told it listens there."""

import socket

import pytest

from searchveil.ports import LOOPBACK, KeptPorts


def test_who_is_told_a_kept_port_listens_there_again_and_again() -> None:
    with KeptPorts(3) as ports:
        assert len(set(ports.numbers)) == 3
        place = (LOOPBACK, ports.numbers[1])
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(place)
            with socket.create_server(place), pytest.raises(OSError, match="in use"):
                socket.create_server(place)


@pytest.mark.parametrize("reuse", [0, 1])
def test_who_asks_for_any_port_is_not_given_a_kept_one(reuse: int) -> None:
    """Of 3,000 strangers sixty would be given one of 300 ports that nobody keeps."""
    with KeptPorts(300) as ports:
        given = set()
        for _ in range(3000):
            with socket.socket() as stranger:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
                stranger.bind((LOOPBACK, 0))
                given.add(stranger.getsockname()[1])
        assert given.isdisjoint(ports.numbers)
