"""Fetch on a controller: the metadata log for followers and observers."""

import pytest

from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.handlers.node_client import LEADER, leader_client, refusal
from trimaran.quorum.handlers.fetch import fetch
from trimaran.quorum.raft_log.partition import TOPIC, TOPIC_ID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def wanted(*, offset=0, epoch=1, last_epoch=0, cluster_id=CLUSTER_ID):
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
    )
    topic = FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    return FetchRequest(cluster_id=cluster_id, max_wait_ms=500, min_bytes=0, topics=[topic])


@pytest.mark.parametrize("topics", [[], [FetchTopic(topic_id=TOPIC_ID, partitions=[])]])
def test_request_without_one_partition_is_invalid(topics):
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
    answer = refusal(fetch, request, 17)
    assert (answer.error_code, answer.responses) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", [12, 13, 18])
async def test_log_is_returned_as_on_disk(tmp_path, version):
    async with leader_client(tmp_path) as one:
        answer = await one.call(wanted(), version)
        (found,) = answer.responses[0].partitions
        assert (found.error_code, found.high_watermark) == (0, 2)
        log = one.member.node.log.log
        assert bytes(found.records) == bytes(log.read_bytes(0, 1 << 20, upto_offset=2))


async def test_fetch_with_other_epoch_gets_the_leader(tmp_path):
    async with leader_client(tmp_path) as one:
        (found,) = (await one.call(wanted(epoch=one.epoch - 1))).responses[0].partitions
        assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert found.current_leader.leader_id == LEADER
        (found,) = (await one.call(wanted(epoch=one.epoch + 1))).responses[0].partitions
        assert found.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_diverged_log_gets_divergence_point(tmp_path):
    async with leader_client(tmp_path) as one:
        (found,) = (await one.call(wanted(offset=50, last_epoch=1))).responses[0].partitions
        assert (found.error_code, found.diverging_epoch.end_offset) == (0, 2)
        assert not found.records


async def test_request_of_another_cluster_is_refused(tmp_path):
    async with leader_client(tmp_path) as one:
        answer = await one.call(wanted(cluster_id="another"))
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
