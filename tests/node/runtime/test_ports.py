import socket

import pytest

from trimaran.node.runtime.ports import HOST, port_of, reserve
from trimaran.wire.transport.server.server import Listener


def test_reserved_port_is_given_only_once():
    with reserve() as held:
        with pytest.raises(OSError, match="in use"):
            reserve(port_of(held))
        with socket.socket() as probe, pytest.raises(OSError, match="in use"):
            probe.bind((HOST, port_of(held)))


def test_server_listens_on_port_repeatedly():
    with reserve() as held:
        address = (HOST, port_of(held))
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)
            with Listener.bind("ANY", *address).socket:
                socket.create_connection(address).close()
