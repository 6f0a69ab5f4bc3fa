"""Probes of a process: a refused connection means that it has ended, silence means nothing."""

import pytest
import trio

from trimaran.node.runtime.ports import HOST
from trimaran.quorum.controller.nodes import liveness
from trimaran.quorum.controller.nodes.liveness import probe
from trimaran.wire.client.errors import ConnectionLost, ConnectRefused
from trimaran.wire.text.endpoint import Endpoint


class Socket:
    closed = False

    def __init__(self, port):
        self.port = port

    def getpeername(self):
        return HOST, self.port

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


@pytest.fixture
def network(monkeypatch):
    """Sets the results of connecting to a port, in order, with the last one repeated; and returns the opened
    sockets.
    """
    answers, opened = {}, []

    async def connect(_host, port, *, timeout):  # noqa: ASYNC109 - as the real one
        await trio.lowlevel.checkpoint()
        assert timeout == 1.0
        found = answers[port].pop(0) if len(answers[port]) > 1 else answers[port][0]
        if isinstance(found, Exception):
            raise found
        opened.append(Socket(port))
        return opened[-1]

    monkeypatch.setattr(liveness, "connect", connect)
    return answers, opened


REFUSED, SILENT, LISTENS = ConnectRefused("refused"), ConnectionLost("timed out"), None


@pytest.mark.parametrize(
    ("answers", "is_down"),
    [
        ([[REFUSED]], True),
        ([[REFUSED], [REFUSED]], True),
        ([[LISTENS]], False),
        ([[SILENT]], False),  # the network is cut, and the process may be alive
        ([[REFUSED], [LISTENS]], False),
        ([[REFUSED], [SILENT]], False),
        ([], False),
        ([[LISTENS, REFUSED]], True),  # the sockets close one by one
        ([[REFUSED], [LISTENS, LISTENS, REFUSED]], True),
        ([[LISTENS, LISTENS, LISTENS, REFUSED]], False),
    ],
)
async def test_process_is_gone_when_all_listeners_refuse(network, autojump_clock, answers, is_down):
    known, opened = network
    known.update(enumerate(map(list, answers)))
    endpoints = [Endpoint("L", HOST, port, 0) for port in known]
    result = await probe(endpoints)
    assert result.is_down is is_down
    assert all(connection.closed for connection in opened)
    assert result.answered == {(HOST, endpoint.port) for endpoint in opened}
    assert result.refused == ({(HOST, port) for port in known} if is_down else frozenset())


async def test_endpoint_refuses_when_all_its_addresses_do(network, monkeypatch):
    """If a name resolves to a new address, it is unknown whether the previous one refuses."""
    known, _ = network
    known[7] = [REFUSED]

    async def getaddrinfo(host, port, *, type):  # noqa: A002 - as the real one
        await trio.lowlevel.checkpoint()
        return [(2, 1, 6, "", ("10.0.0.1", port)), (10, 1, 6, "", ("fd00::1", port, 0, 0))]

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
    result = await probe([Endpoint("L", "two.test", 7, 0)])
    assert result.refused == {("10.0.0.1", 7), ("fd00::1", 7)}


async def test_unresolvable_name_refuses_nothing(network):
    known, _ = network
    known[7] = [REFUSED]
    result = await probe([Endpoint("L", "\udcff", 7, 0)])
    assert (result.is_down, result.refused) == (True, frozenset())
