"""Produce responses name the current leader (KIP-951) of the requested partitions, if the version supports it, whenever
it changes.
"""

from __future__ import annotations

import pytest

from tests.broker.batches import batch
from tests.broker.calls import Paused, call, finished, started, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.handlers.produce import produce
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

HERE, THERE = 11, 12
BROKERS = (registration(HERE), registration(THERE, port=7777))
VERSION = 12
NOBODY = (-1, -1)


@pytest.fixture
def harness(tmp_path):
    return open_harness(tmp_path)


def start(harness, indexes, version=VERSION):
    """Sends a record to each of these partitions."""
    data = [PartitionProduceData(index=index, records=batch(b"a")) for index in indexes]
    topics = [TopicProduceData(name="t", partition_data=data)]
    message = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics)
    message = through_wire(message, version)
    return started(produce(message, harness.contexts.data, call(message, version)))


def leaders_in(response):
    """Returns the error and the leader by partition, and the leaders' addresses."""
    leaders = {
        partition_response.index: (
            ErrorCode.of(partition_response.error_code).name,
            (
                partition_response.current_leader.leader_id,
                partition_response.current_leader.leader_epoch,
            ),
        )
        for partition_response in response.responses[0].partition_responses
    }
    return leaders, [(node.node_id, node.port) for node in response.node_endpoints]


async def test_each_remote_leader_has_one_endpoint(harness):
    gone = partition((THERE, HERE), leader_epoch=4)
    moved = partition((HERE, THERE), leader=THERE, leader_epoch=5)
    harness.set_image(topic("t", partition((HERE,)), gone, moved), brokers=BROKERS)
    response = start(harness, [0, 1, 2])
    harness.flush()
    assert leaders_in(await finished(response)) == (
        {
            0: ("NONE", NOBODY),
            1: ("NOT_LEADER_OR_FOLLOWER", (THERE, 4)),
            2: ("NOT_LEADER_OR_FOLLOWER", (THERE, 5)),
        },
        [(THERE, 7777)],
    )


async def test_older_versions_lack_the_field(harness):
    harness.set_image(topic("t", partition((THERE, HERE))), brokers=BROKERS)
    response = await finished(start(harness, [0], version=9))
    assert leaders_in(response) == ({0: ("NOT_LEADER_OR_FOLLOWER", NOBODY)}, [])


async def test_leaderless_partition_has_epoch_without_endpoint(harness):
    orphan = partition((HERE, THERE), leader=-1, leader_epoch=6)
    harness.set_image(topic("t", orphan), brokers=BROKERS)
    leaders, endpoints = leaders_in(await finished(start(harness, [0])))
    assert leaders == {0: ("NOT_LEADER_OR_FOLLOWER", (-1, 6))}
    assert endpoints == []


async def test_leader_change_during_wait_names_new_leader(harness):
    """The response names the leader at the time of the response, not of the request."""
    both = {"isr": (HERE, THERE), "leader_epoch": 2}
    harness.set_image(topic("t", partition((HERE, THERE), **both)), brokers=BROKERS)
    response = start(harness, [0])
    assert isinstance(response, Paused)
    harness.flush()
    moved = partition((HERE, THERE), leader=THERE, leader_epoch=3)
    harness.set_image(topic("t", moved), brokers=BROKERS)
    assert leaders_in(await finished(response)) == (
        {0: ("NOT_LEADER_OR_FOLLOWER", (THERE, 3))},
        [(THERE, 7777)],
    )
