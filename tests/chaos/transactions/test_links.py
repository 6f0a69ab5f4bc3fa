"""Open doors forward data; shut ones hold it back until they open."""

import contextlib
import socket
import threading

import pytest

from tests.chaos.transactions.links import ANSWERS, CLIENTS, PEERS, REQUESTS, Door

NAMES = {CLIENTS: b"rdkafka", PEERS: b"broker-11-fetcher"}
SECONDS_MAX = 20.0


@pytest.fixture
def host():
    """Runs an echo server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer(connection):
            with connection:
                while piece := connection.recv(1000):
                    connection.sendall(piece)

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()


@pytest.fixture
def door(host):
    with Door(host) as door:
        yield door


class Guest:
    def __init__(self, door, side):
        name, _, port = door.address.rpartition(":")
        self._socket = socket.create_connection((name, int(port)))
        self._socket.settimeout(SECONDS_MAX)
        self._head = bytes(12) + len(NAMES[side]).to_bytes(2, "big") + NAMES[side]
        self._socket.sendall(self._head)

    def heard(self):
        found = b""
        while len(found) < len(self._head) and (piece := self._socket.recv(1000)):
            found += piece
        return found == self._head

    def close(self):
        self._socket.close()

    def say(self):
        self._socket.sendall(self._head)

    def hears_nothing(self):
        self._socket.settimeout(0.05)
        try:
            return not self._socket.recv(1)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(SECONDS_MAX)


@pytest.fixture
def enter(door):
    """Returns a function that connects to the door as a client or broker."""
    with contextlib.ExitStack() as guests:

        def enter(side):
            guest = Guest(door, side)
            guests.callback(guest.close)
            return guest

        yield enter


@pytest.mark.parametrize("way", [REQUESTS, ANSWERS])
def test_held_connection_arrives_when_door_opens(door, enter, way):
    client, peer = enter(CLIENTS), enter(PEERS)
    assert client.heard()
    assert peer.heard()
    door.shut((PEERS,), (way,))
    for guest in (client, peer):
        guest.say()
    assert client.heard()
    late = enter(PEERS)
    assert peer.hears_nothing()
    assert late.hears_nothing()
    door.open()
    assert peer.heard()
    assert late.heard()


def test_stopped_node_accepts_no_client():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = listener.getsockname()
    with Door(gone) as door:
        guest = Guest(door, CLIENTS)
        assert not guest.heard()
        guest.close()
