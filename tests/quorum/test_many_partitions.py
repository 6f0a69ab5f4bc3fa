"""Brokers with more partitions than one step of the loop decides on: they leave and return in batches, and no partition
is forgotten.
"""

from contextlib import contextmanager

import pytest
import trio
import trio.testing

from tests.cluster.in_process import Images, cluster, connected_to
from tests.cluster.nodes import CLUSTER_ID, SECONDS
from tests.quorum.controller.test_server import creation
from trimaran.quorum.controller.handlers import broker_heartbeat, broker_registration
from trimaran.quorum.controller.nodes import brokers
from trimaran.quorum.controller.partitions import broker_changes
from trimaran.quorum.controller.tasks import fencing, own_decisions, upkeep
from trimaran.quorum.formatting.storage import format_paths
from trimaran.quorum.metadata.features import ELR_VERSION
from trimaran.quorum.metadata.image import NO_LEADER
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.broker_registration import Listener
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

PARTITIONS = 9
STEP = 2


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    for module in (broker_heartbeat, fencing, own_decisions, broker_registration):
        monkeypatch.setattr(module, "PARTITIONS_PER_STEP", STEP)


class Steps:
    """The numbers of partitions that each batch changed since the last call."""

    def __init__(self, running):
        self.sizes = []
        running.loader.add_publisher(self)

    def publish(self, delta, _image, _manifest):
        self.sizes.append(sum(len(topic.partitions) for topic in delta.topics.changed.values()))

    def take(self):
        taken, self.sizes = [size for size in self.sizes if size], []
        return taken


def partitions_of(image):
    return list(image.topics.by_name["t"].partitions.values())


@pytest.fixture
def clock():
    return trio.testing.MockClock(rate=1.0)


@contextmanager
def time_enough(clock):
    """A session of 300 ms applies to silent brokers; the preparation, with its writes to a disk, has ten times
    as long.
    """
    clock.rate = 0.1
    yield
    clock.rate = 1.0


async def joined(nodes, connection, *ids):
    found = {i: nodes.scripted_broker(connection, i) for i in ids}
    for item in found.values():
        await item.join()
    return found


async def test_controlled_shutdown_moves_many_partitions_in_batches(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        images, steps = Images(active), Steps(active)
        async with connected_to(active) as connection:
            both = await joined(nodes, connection, 1, 2)
            await connection.call(creation("t", partitions=PARTITIONS, factor=2), timeout=SECONDS)
            steps.take()
            assert not (await both[1].beat(want_shut_down=True)).should_shut_down
            await images.wait_for(lambda image: all(p.isr == (2,) for p in partitions_of(image)))
            assert max(steps.take()) <= STEP
            await both[2].beat()
            with trio.fail_after(SECONDS):
                while not (await both[1].beat(want_shut_down=True)).should_shut_down:
                    await both[2].beat()


async def test_silent_broker_loses_many_partitions_in_batches(tmp_path, clock):
    async with cluster(tmp_path, brokers=0, broker_session_timeout_ms=300) as nodes:
        active = await nodes.active()
        images, steps = Images(active), Steps(active)
        async with connected_to(active) as connection:
            with time_enough(clock):
                both = await joined(nodes, connection, 1, 2)
                created = creation("t", partitions=PARTITIONS, factor=2)
                await connection.call(created, timeout=SECONDS)
            steps.take()
            with trio.fail_after(SECONDS):
                while not active.loader.image.cluster.brokers[1].fenced:
                    await both[2].beat()
            image = await images.wait_for(lambda image: image.cluster.brokers[1].fenced)
            assert all(p.isr == (2,) and p.leader == 2 for p in partitions_of(image))
            assert max(steps.take()) <= STEP


async def test_returning_broker_leads_everything_otherwise_leaderless(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        images, steps = Images(active), Steps(active)
        async with connected_to(active) as connection:
            one = (await joined(nodes, connection, 1))[1]
            await connection.call(creation("t", partitions=PARTITIONS), timeout=SECONDS)
            assert (await one.beat(want_fence=True)).is_fenced
            assert {p.leader for p in partitions_of(active.loader.image)} == {NO_LEADER}
            steps.take()
            assert not (await one.beat()).is_fenced
            await images.wait_for(lambda image: all(p.leader == 1 for p in partitions_of(image)))
            assert max(steps.take()) <= STEP


async def test_new_incarnation_replaces_one_in_sync(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        steps = Steps(active)
        async with connected_to(active) as connection:
            await joined(nodes, connection, 2)
            async with connected_to(active) as another:
                one = (await joined(nodes, another, 1))[1]
                created = creation("t", partitions=PARTITIONS, factor=2)
                await connection.call(created, timeout=SECONDS)
            steps.take()
            here = Listener(name="PLAINTEXT", host="127.0.0.1", port=one.port, security_protocol=0)
            successor = nodes.scripted_broker(connection, 1, incarnation=1)
            with trio.fail_after(SECONDS):
                while await successor.register(listeners=[here]):
                    await trio.lowlevel.checkpoint()
            assert all(p.isr == (2,) for p in partitions_of(active.loader.image))
            assert max(steps.take()) <= STEP


async def test_in_sync_partitions_are_examined_once(tmp_path, clock, monkeypatch):
    """A sole replica loses nothing: a million of them must not be examined in the step that registers the next
    incarnation.
    """
    looked_at = []
    real = broker_changes.changes_without

    def changes_without(state, broker_id, directory=None, keys=None):
        kept = list(state.index.in_sync(broker_id) if keys is None else keys)
        looked_at.append(len(kept))
        return real(state, broker_id, directory, kept)

    for module in (brokers, upkeep, broker_changes):
        monkeypatch.setattr(module, "changes_without", changes_without)
    without = {ELR_VERSION: 0}  # with eligible leaders a sole replica leaves the ISR
    format_paths([tmp_path / "1"], CLUSTER_ID, 1, features=without)
    async with cluster(tmp_path, brokers=0, broker_session_timeout_ms=300) as nodes:
        active = await nodes.active()
        images = Images(active)
        async with connected_to(active) as connection:
            with time_enough(clock):
                one = (await joined(nodes, connection, 1))[1]
                await connection.call(creation("t", partitions=PARTITIONS), timeout=SECONDS)
            await images.wait_for(lambda image: image.cluster.brokers[1].fenced)  # silent
            here = Listener(name="PLAINTEXT", host="127.0.0.1", port=one.port, security_protocol=0)
            assert (
                await nodes.scripted_broker(connection, 1, incarnation=1).register(listeners=[here])
                == 0
            )
    assert all(p.isr == (1,) for p in partitions_of(active.loader.image))
    assert sum(looked_at) == 2 * PARTITIONS
    assert max(looked_at) <= STEP


async def test_unclean_leaders_are_elected_if_topic_allows(tmp_path):
    """The election does not wait for the next round."""
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        images, steps = Images(active), Steps(active)
        async with connected_to(active) as connection:
            both = await joined(nodes, connection, 1, 2)
            await connection.call(creation("t", partitions=PARTITIONS, factor=2), timeout=SECONDS)
            assert (await both[1].beat(want_fence=True)).is_fenced
            assert (await both[2].beat(want_fence=True)).is_fenced
            assert not (await both[1].beat()).is_fenced
            assert {p.leader for p in partitions_of(active.loader.image)} == {NO_LEADER}
            steps.take()
            setting = AlterableConfig(
                name="unclean.leader.election.enable", config_operation=0, value="true"
            )
            request = IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(resource_type=2, resource_name="t", configs=[setting])
                ],
                validate_only=False,
            )
            answer = await connection.call(request, timeout=SECONDS)
            assert answer.responses[0].error_code == ErrorCode.NONE
            image = await images.wait_for(
                lambda image: all(p.leader == 1 for p in partitions_of(image))
            )
            assert all(p.isr == (1,) and p.leader_recovery_state for p in partitions_of(image))
            assert max(steps.take()) <= STEP
