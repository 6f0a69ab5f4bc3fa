"""A controller registers whenever the metadata lacks its current registration (KIP-919)."""

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.quorum.metadata.build import SOMEWHERE, features, image_of, replay, uid
from trimaran.node.runtime.latest import Latest
from trimaran.quorum.controller.nodes import registrar as module
from trimaran.quorum.controller.nodes.controllers import register_controller
from trimaran.quorum.controller.nodes.registrar import Registrar
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.raft.listener import LeaderAndEpoch
from trimaran.wire.client.errors import ConnectRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.controller_registration import ControllerRegistrationResponse
from trimaran.wire.text.endpoint import Endpoint

LISTENER = Endpoint("CONTROLLER", "here", 9093, 0)
FIRST, SECOND = ("first", 1), ("second", 2)


class Quorum:
    """The quorum with the leader's node id; `requests` have their addresses, and get the `code` or fail with the
    `error`.
    """

    def __init__(self):
        self.leader = Latest(LeaderAndEpoch(7, 1))
        self.addresses = {7: FIRST, 8: SECOND}
        self.requests, self.times = [], []
        self.code, self.error = 0, None

    @asynccontextmanager
    async def connection(self, *address, **_):
        self.times.append(trio.current_time())
        self.address = address
        yield self

    async def call(self, request, **_):
        await trio.lowlevel.checkpoint()
        self.requests.append((self.address, request))
        if self.error is not None:
            raise self.error
        return ControllerRegistrationResponse(error_code=self.code)


class Registered:
    """A running controller, and its registration in the metadata."""

    def __init__(self, quorum, incarnation):
        self.registrar = Registrar(
            1, uid(incarnation), [LISTENER], quorum.leader, quorum.addresses.get
        )
        self.quorum = quorum

    async def publish(self, image):
        self.registrar.publish(replay([]), image, Manifest(SOMEWHERE))
        await trio.testing.wait_all_tasks_blocked()

    def image(self, level=30):
        """Publishes an image with the result of the last request."""
        _, request = self.quorum.requests[-1]
        records = register_controller(request, image_of(features(level))).records
        return image_of(features(level), *records)


@pytest.fixture
def quorum(monkeypatch):
    found = Quorum()
    monkeypatch.setattr(module, "open_node_connection", found.connection)
    return found


@asynccontextmanager
async def running(quorum, incarnation=1):
    one = Registered(quorum, incarnation)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.registrar.run)
        yield one
        nursery.cancel_scope.cancel()


async def test_registration_describes_node_once(quorum, autojump_clock):
    async with running(quorum) as one:
        await one.publish(image_of(features()))
        ((address, request),) = quorum.requests
        assert address == FIRST
        assert (request.controller_id, request.incarnation_id) == (1, uid(1))
        assert [(each.host, each.port) for each in request.listeners] == [("here", 9093)]
        assert "kraft.version" in [each.name for each in request.features]
        assert not request.zk_migration_ready
        await one.publish(one.image())
        await trio.sleep(1000)
        assert len(quorum.requests) == 1
        await one.publish(image_of(features()))  # unregistered
        assert len(quorum.requests) == 2


@pytest.mark.parametrize(("level", "requests"), [(0, 0), (14, 0), (15, 1)])
async def test_below_3_7_controllers_do_not_register(quorum, autojump_clock, level, requests):
    """Nodes at those levels could not read the record."""
    async with running(quorum) as one:
        await one.publish(image_of(*([features(level)] if level else [])))
        await trio.sleep(2.5)
        assert len(quorum.requests) == requests


async def test_new_incarnation_replaces_the_previous_one(quorum, autojump_clock):
    async with running(quorum, incarnation=1) as one:
        await one.publish(image_of(features()))
        known = one.image()
    async with running(quorum, incarnation=2) as other:
        await other.publish(known)
        assert [request.incarnation_id for _, request in quorum.requests] == [uid(1), uid(2)]


async def test_unseen_registration_is_repeated(quorum, autojump_clock):
    async with running(quorum) as one:
        await one.publish(image_of(features()))
        await trio.sleep(4.9)
        assert len(quorum.requests) == 1
        await trio.sleep(0.2)
        assert len(quorum.requests) == 2


@pytest.mark.parametrize(
    ("code", "error"), [(ErrorCode.NOT_CONTROLLER, None), (0, ConnectRefused("refused"))]
)
async def test_refused_registration_is_retried_with_growing_pauses(
    quorum, autojump_clock, code, error
):
    quorum.code, quorum.error = code, error
    async with running(quorum) as one:
        await one.publish(image_of(features()))
        await trio.sleep(60)
        pauses = [b - a for a, b in zip(quorum.times, quorum.times[1:], strict=False)]
        assert pauses[0] <= 0.1
        assert 10 < len(pauses) < 60
        assert max(pauses) <= 6.5
        quorum.leader.set(LeaderAndEpoch(8, 2))
        await trio.sleep(10)
        assert quorum.requests[-1][0] == SECOND


async def test_registration_waits_until_leader_is_known(quorum, autojump_clock):
    quorum.leader.set(LeaderAndEpoch(None, 1))
    async with running(quorum) as one:
        await one.publish(image_of(features()))
        await trio.sleep(100)
        assert quorum.requests == []
        quorum.leader.set(LeaderAndEpoch(9, 2))
        await trio.sleep(0.01)
        assert quorum.requests == []
        quorum.addresses[9] = FIRST
        await trio.sleep(1)
        assert quorum.requests
