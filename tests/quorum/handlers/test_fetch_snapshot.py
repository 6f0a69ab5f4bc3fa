"""FetchSnapshot: parts of a snapshot, and refusals."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.handlers.node_client import leader_client, refusal
from tests.quorum.test_dynamic_node import write_snapshot
from trimaran.quorum.handlers.fetch_snapshot import fetch_snapshot
from trimaran.quorum.raft_log.partition import TOPIC
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
)


def piece(snapshot, *, epoch=1, position=0, max_bytes=1 << 20, cluster_id=CLUSTER_ID):
    end_offset, snapshot_epoch = snapshot
    partition = FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=end_offset, epoch=snapshot_epoch),
        position=position,
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[partition])
    return FetchSnapshotRequest(cluster_id=cluster_id, max_bytes=max_bytes, topics=[topic])


@pytest.mark.parametrize(
    "topics", [[], [FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[])]]
)
def test_request_without_one_partition_is_invalid(topics):
    answer = refusal(fetch_snapshot, FetchSnapshotRequest(topics=topics))
    assert (answer.error_code, answer.topics) == (ErrorCode.INVALID_REQUEST, [])


async def test_pieces_form_the_whole_file(tmp_path):
    async with leader_client(tmp_path) as one:
        await write_snapshot(one.member)
        snapshot = one.member.node.log.latest_snapshot
        whole = b""
        while True:
            request = piece(snapshot, position=len(whole), max_bytes=100)
            (found,) = (await one.call(request)).topics[0].partitions
            assert (found.error_code, found.position) == (0, len(whole))
            whole += bytes(found.unaligned_records)
            if len(whole) == found.size:
                break
        (file,) = tmp_path.rglob("*.checkpoint")
        assert whole == file.read_bytes()


async def test_invalid_snapshot_positions_are_refused(tmp_path):
    async with leader_client(tmp_path) as one:
        await write_snapshot(one.member)
        snapshot = one.member.node.log.latest_snapshot
        codes = []
        for request in (
            piece((77, 1)),
            piece(snapshot, position=1 << 30),
            piece(snapshot, epoch=one.epoch - 1),
        ):
            (found,) = (await one.call(request)).topics[0].partitions
            codes.append(found.error_code)
        assert codes == [
            ErrorCode.SNAPSHOT_NOT_FOUND,
            ErrorCode.POSITION_OUT_OF_RANGE,
            ErrorCode.FENCED_LEADER_EPOCH,
        ]


async def test_request_of_another_cluster_is_refused(tmp_path):
    async with leader_client(tmp_path) as one:
        answer = await one.call(piece((2, 1), cluster_id="another"))
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
