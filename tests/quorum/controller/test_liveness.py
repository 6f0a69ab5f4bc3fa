"""Whether a process is there: a refused connection says no, silence says nothing."""

import pytest
import trio

from quorum.controller import liveness
from quorum.controller.liveness import broker_is_down
from wire.client.errors import ConnectionLost, ConnectRefused
from wire.endpoint import Endpoint


class Socket:
    closed = False

    def close(self):
        self.closed = True


@pytest.fixture
def network(monkeypatch):
    """What connecting to a port gives, one thing after another, the last for ever; and the sockets that were opened."""
    answers, opened = {}, []

    async def connect(_host, port, *, timeout):  # noqa: ASYNC109 - as the real one
        await trio.lowlevel.checkpoint()
        assert timeout > 0
        found = answers[port].pop(0) if len(answers[port]) > 1 else answers[port][0]
        if isinstance(found, Exception):
            raise found
        opened.append(Socket())
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
        ([[SILENT]], False),  # the network is cut, and the process may live
        ([[REFUSED], [LISTENS]], False),
        ([[REFUSED], [SILENT]], False),
        ([], False),
        ([[LISTENS, REFUSED]], True),  # its sockets close one after another
        ([[REFUSED], [LISTENS, LISTENS, REFUSED]], True),
        ([[LISTENS, LISTENS, LISTENS, REFUSED]], False),
    ],
)
async def test_a_process_is_gone_when_nobody_listens_where_it_listened(
    network, autojump_clock, answers, is_down
):
    known, opened = network
    known.update(enumerate(map(list, answers)))
    endpoints = [Endpoint("L", "h", port, 0) for port in known]
    assert await broker_is_down(endpoints) is is_down
    assert all(one.closed for one in opened)
