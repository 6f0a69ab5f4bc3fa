"""OffsetForLeaderEpoch: the end of an epoch, from which a consumer detects truncation."""

import pytest

from tests.broker.batches import batch
from tests.broker.calls import call, finished, through_wire
from tests.broker.rooms import NotedRoom
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from trimaran.log.batches.batch import iter_batches
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

HERE = 11
TOPIC_BYTES = 16  # the size of a topic in the response, without its name and its partitions


@pytest.fixture
def harness(tmp_path):
    """Appends three records of epoch 2, and two of epoch 5, which is the present one."""
    harness = open_harness(tmp_path)
    for epoch, values in ((2, (b"a", b"b", b"c")), (5, (b"d", b"e"))):
        harness.set_image(topic("t", partition(leader_epoch=epoch)))
        data = batch(*values)
        harness.leader().append(data, list(iter_batches(data)))
    yield harness
    harness.directory.close(broker_epoch=None)


async def end_of(harness, epoch, *, current=-1, name="t", index=0, version=4):
    wanted = OffsetForLeaderPartition(
        partition=index, current_leader_epoch=current, leader_epoch=epoch
    )
    message = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=name, partitions=[wanted])]
    )
    request = through_wire(message, version)
    answer = await finished(
        offset_for_leader_epoch(request, harness.contexts.data, call(request, version))
    )
    (found,) = through_wire(answer, version).topics[0].partitions
    return found


@pytest.mark.parametrize(
    ("asked", "epoch", "end_offset"), [(5, 5, 5), (2, 2, 3), (3, 2, 3), (4, 2, 3), (1, 1, 0)]
)
async def test_epoch_ends_where_next_one_begins(harness, asked, epoch, end_offset):
    """For an epoch without records, the response has the largest epoch before it."""
    found = await end_of(harness, asked)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, end_offset)


async def test_future_epoch_has_no_end(harness):
    found = await end_of(harness, 6)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, -1, -1)


async def test_version_0_returns_no_epoch(harness):
    found = await end_of(harness, 3, version=0)
    assert (found.leader_epoch, found.end_offset) == (-1, 3)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"current": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current": 5}, ErrorCode.NONE),
        ({"name": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_stale_epoch_or_missing_partition_is_refused(harness, asked, code):
    assert (await end_of(harness, 5, **asked)).error_code == code


async def test_only_the_leader_answers(harness):
    harness.set_image(topic("t", partition((HERE, 12), leader=12, leader_epoch=6)))
    assert (await end_of(harness, 5)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_topics_and_partitions_take_room(harness):
    wanted = [OffsetForLeaderPartition(partition=index, leader_epoch=5) for index in (0, 1)]
    topics = [OffsetForLeaderTopic(topic=name, partitions=wanted) for name in ("t", "nowhere")]
    request = through_wire(OffsetForLeaderEpochRequest(topics=topics), 4)
    asked = call(request, 4)
    room = NotedRoom(asked)
    answer = await finished(offset_for_leader_epoch(request, harness.contexts.data, asked))
    encoded = sum(len(data) for found in answer.topics for data in found.partitions)
    assert room.size == encoded + 2 * TOPIC_BYTES + len("t") + len("nowhere")
