"""The latest offsets of partitions that this broker, another one, or no broker leads."""

from __future__ import annotations

import pytest

from tests.broker.batches import batch
from tests.broker.calls import finished
from tests.broker.transactions.channels import Channels
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.fetching.latest_offsets import LatestOffsets
from trimaran.log.batches.batch import iter_batches
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

E = ErrorCode
HERE, THERE, NOWHERE = (TopicPartition("t", index) for index in range(3))
OTHER, UNKNOWN = TopicPartition("u", 0), TopicPartition("no", 0)


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    of_12 = partition((12,))
    nowhere = partition((12,), leader=-1)
    harness.set_image(topic("t", partition(), of_12, nowhere), topic("u", of_12))
    return harness


def latest(harness, answer):
    channels = Channels(7, answer)
    return channels, LatestOffsets(11, harness.partitions, channels, harness.metadata, 3.0)


def found(*topics):
    """Returns the response with an offset or error code for each partition, by topic."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=index, offset=offset, error_code=code
                    )
                    for index, (offset, code) in partitions.items()
                ],
            )
            for name, partitions in topics
        ]
    )


async def test_each_leader_is_asked_once(harness):
    data = batch(b"x", b"y")
    harness.leader().append(data, list(iter_batches(data)), acks=1)
    harness.flush()
    response = found(("t", {1: (7, E.NONE)}), ("u", {0: (-1, E.NOT_LEADER_OR_FOLLOWER), 5: (1, 0)}))
    channels, offsets = latest(harness, lambda _broker, _request: response)
    keys = [HERE, THERE, NOWHERE, OTHER, UNKNOWN]
    assert await finished(offsets.asking(keys)) == {
        HERE: 2,
        THERE: 7,
        NOWHERE: E.LEADER_NOT_AVAILABLE,
        OTHER: E.NOT_LEADER_OR_FOLLOWER,
        UNKNOWN: E.LEADER_NOT_AVAILABLE,
    }
    [(_, broker_id, request, seconds)] = channels.asked
    asked = [
        ListOffsetsTopic(
            name=name,
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)],
        )
        for name, index in (THERE, OTHER)
    ]
    assert (broker_id, seconds) == (12, 3.0)
    assert request == ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=asked)


async def test_partition_without_answer_is_unknown(harness):
    _, offsets = latest(harness, lambda _broker, _request: found())
    assert await finished(offsets.asking([THERE])) == {THERE: E.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("error", [NotSent, OutcomeUnknown])
async def test_unreachable_leader_is_a_network_error(harness, error):
    def fail(_broker, _request):
        raise error("gone")

    _, offsets = latest(harness, fail)
    expected = {HERE: 0, THERE: E.NETWORK_EXCEPTION, OTHER: E.NETWORK_EXCEPTION}
    assert await finished(offsets.asking([HERE, THERE, OTHER])) == expected


async def test_own_partitions_need_no_request(harness):
    channels, offsets = latest(harness, lambda _broker, _request: found())
    assert await finished(offsets.asking([HERE])) == {HERE: 0}
    assert await finished(offsets.asking([])) == {}
    assert channels.asked == []
