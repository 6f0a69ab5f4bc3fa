"""Decisions that take many turns of the loop, on a real controller: responses to clients, and results."""

from functools import partial

import pytest
import trio

from tests.cluster.in_process import Images, cluster, connected_to
from tests.cluster.nodes import SECONDS
from tests.quorum.controller.test_server import creation
from tests.quorum.test_many_partitions import joined
from trimaran.node.replicated import operations, state_machine
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest

CONTROLLERS = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
PARTITIONS = 60
STEP = 5


@pytest.fixture(autouse=True)
def _small_turns(monkeypatch):
    monkeypatch.setattr(operations, "STEPS_PER_TURN", STEP)
    monkeypatch.setattr(state_machine, "RECORDS_PER_STEP", 1)


async def underway(active):
    """Waits until a decision takes longer than a turn."""
    with trio.fail_after(SECONDS):
        while not active.context.controller.active().operations.busy:
            await trio.lowlevel.checkpoint()


def deletion(name):
    topics = [DeleteTopicState(name=name, topic_id=NIL_UUID)]
    return DeleteTopicsRequest(topics=topics, timeout_ms=5000)


async def test_large_decisions_keep_turns_short(tmp_path, monkeypatch):
    done = []

    def run_turn(self):
        done.append(real(self))
        return done[-1]

    real = operations._Operation.run_turn
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection:
            await joined(nodes, connection, 1)
            monkeypatch.setattr(operations._Operation, "run_turn", run_turn)
            await connection.call(creation("t", partitions=PARTITIONS), timeout=SECONDS)
    placed, made, encoded, replayed, indexed = [PARTITIONS] * 5
    assert sum(done) >= placed + made + encoded + replayed + indexed
    assert max(done) == STEP


async def test_requests_during_a_decision_are_decided_afterwards(tmp_path):
    """A heartbeat nevertheless extends the lease at once."""
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection, connected_to(active) as another:
            one = (await joined(nodes, another, 1))[1]
            active_controller = active.context.controller.active()
            answers = {}

            async def ask(name, decide):
                answers[name] = await decide()

            async with trio.open_nursery() as nursery:
                create = creation("t", partitions=PARTITIONS)
                nursery.start_soon(
                    ask, "created", partial(connection.call, create, timeout=SECONDS)
                )
                await underway(active)
                lease = active_controller.leases.get(1, one.epoch)
                deadline, image = lease.deadline, active_controller.image
                delete = partial(another.call, deletion("t"), timeout=SECONDS)
                nursery.start_soon(ask, "deleted", delete)
                nursery.start_soon(ask, "beaten", one.beat)
                with trio.fail_after(SECONDS):
                    while lease.deadline == deadline:
                        await trio.lowlevel.checkpoint()
                assert active_controller.operations.busy
                assert active_controller.image is image
            assert answers["created"].topics[0].error_code == ErrorCode.NONE
            assert answers["deleted"].responses[0].error_code == ErrorCode.NONE  # an existing topic
            assert not answers["beaten"].is_fenced
            assert "t" not in active_controller.image.topics.by_name


async def test_quorum_and_readers_continue_during_decision(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection, connected_to(active) as another:
            await joined(nodes, connection, 1)
            operations = active.context.controller.active().operations
            create = creation("t", partitions=30 * PARTITIONS)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(connection.call, create, timeout=SECONDS))
                await underway(active)
                quorum = await another.call(describe_quorum_request(), timeout=SECONDS)
                controllers_ = await another.call(CONTROLLERS, timeout=SECONDS)
                assert operations.busy
            assert quorum.topics[0].partitions[0].leader_id == 1
            assert [broker.broker_id for broker in controllers_.brokers] == [1]


async def test_epoch_ending_during_decision_leaves_nothing(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        images = Images(active)
        async with connected_to(active) as connection:
            await joined(nodes, connection, 1)
            controller, answers = active.context.controller, []
            epoch, end = controller.active().epoch, active.node.log_end_offset

            async def create():
                request = creation("t", partitions=20 * PARTITIONS)
                answers.append(await connection.call(request, timeout=SECONDS))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(create)
                await underway(active)
                active.node.resign()
            assert [topic.error_code for topic in answers[0].topics] == [ErrorCode.NOT_CONTROLLER]
            image = await images.wait_for(lambda image: image.provenance.epoch > epoch)
            assert "t" not in image.topics.by_name
            assert active.node.log_end_offset < end + PARTITIONS
            await nodes.active()  # the next epoch decides once it has applied its start
            again = await connection.call(creation("t", partitions=1), timeout=SECONDS)
            assert again.topics[0].error_code == ErrorCode.NONE
