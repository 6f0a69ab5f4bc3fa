"""The quorum's handlers through the registry: shapes that are about nothing or something else (mE10), and real answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from quorum.raft_log.partition import TOPIC, TOPIC_ID
from quorum.replica.node import QuorumNode
from tests.quorum.cluster import CLUSTER_ID, HANDLERS, open_cluster
from wire.errors import ErrorCode, KafkaError
from wire.messages import begin_quorum_epoch as begin
from wire.messages import end_quorum_epoch as end
from wire.messages import fetch, fetch_snapshot, vote
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from wire.schema import Message
from wire.transport.calls import Parked
from wire.transport.node_connection import open_node_connection

BY_REQUEST = {handler.__handles__.request: handler for handler in HANDLERS}  # type: ignore[attr-defined]


def unasked(_request: object) -> None:
    raise AssertionError("a malformed request must not reach the core")


CALL = SimpleNamespace(header=SimpleNamespace(api_version=2))


def call(request: Message) -> Message:
    """Stage one of the handler; what is parked is not awaited."""
    context = SimpleNamespace(node=SimpleNamespace(handle=unasked))
    return BY_REQUEST[type(request)](request, context, CALL)


def vote_topics(
    *names: str, partitions: int = 1, index: int = 0
) -> list[vote.VoteRequestTopicData]:
    partition = vote.VoteRequestPartitionData(
        partition_index=index,
        replica_epoch=1,
        replica_id=2,
        last_offset_epoch=0,
        last_offset=0,
        pre_vote=False,
    )
    return [
        vote.VoteRequestTopicData(topic_name=name, partitions=[partition] * partitions)
        for name in names
    ]


@pytest.mark.parametrize(
    "request_",
    [
        vote.VoteRequest(topics=[]),
        vote.VoteRequest(topics=vote_topics(TOPIC, partitions=0)),
        vote.VoteRequest(topics=vote_topics(TOPIC, partitions=2)),
        vote.VoteRequest(topics=vote_topics(TOPIC, TOPIC)),
        vote.VoteRequest(topics=vote_topics("other")),
        vote.VoteRequest(topics=vote_topics(TOPIC, index=1)),
        begin.BeginQuorumEpochRequest(topics=[]),
        begin.BeginQuorumEpochRequest(
            topics=[begin.BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[])]
        ),
        end.EndQuorumEpochRequest(topics=[]),
        end.EndQuorumEpochRequest(
            topics=[end.EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[])]
        ),
        fetch.FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]),
        fetch.FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[])]
        ),
        fetch_snapshot.FetchSnapshotRequest(topics=[]),
        fetch_snapshot.FetchSnapshotRequest(
            topics=[fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[])]
        ),
        DescribeQuorumRequest(topics=[]),
        DescribeQuorumRequest(
            topics=[DescribeQuorumRequestTopicData(topic_name=TOPIC, partitions=[])]
        ),
    ],
    ids=lambda request: type(request).__name__,
)
def test_requests_about_nothing_are_invalid(request_: Message) -> None:
    assert call(request_).error_code == ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]


def test_quorums_of_other_topics_are_unknown() -> None:
    partition = DescribeQuorumRequestPartitionData(partition_index=3)
    topic = DescribeQuorumRequestTopicData(topic_name="orders", partitions=[partition])
    answer = call(DescribeQuorumRequest(topics=[topic]))
    found = answer.topics[0].partitions[0]  # type: ignore[attr-defined]
    assert (found.partition_index, found.error_code) == (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_node_that_does_not_run_says_so() -> None:
    context = SimpleNamespace(
        node=SimpleNamespace(handle=lambda request: QuorumNode.handle(stopped, request))
    )
    stopped = SimpleNamespace(_driver=None)
    request = vote.VoteRequest(topics=vote_topics(TOPIC))
    with pytest.raises(KafkaError, match="does not run"):
        BY_REQUEST[vote.VoteRequest](request, context, CALL)


def test_a_vote_is_parked_until_the_core_has_it() -> None:
    async def finish() -> None: ...

    context = SimpleNamespace(node=SimpleNamespace(handle=lambda _request: finish))
    answer = BY_REQUEST[vote.VoteRequest](
        vote.VoteRequest(topics=vote_topics(TOPIC)), context, CALL
    )
    assert isinstance(answer, Parked)


@pytest.mark.slow
async def test_answers_over_a_socket(tmp_path: Path) -> None:
    with trio.fail_after(20):
        async with open_cluster(tmp_path, 1) as cluster:
            member = await cluster.start(1)
            await cluster.propose("a")
            peer = cluster.voters[1]
            async with open_node_connection(peer.host, peer.port) as connection:
                topic = DescribeQuorumRequestTopicData(
                    topic_name=TOPIC,
                    partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
                )
                for version in (0, 1, 2):
                    request = DescribeQuorumRequest(topics=[topic])
                    answer = await connection.call(request, version=version, timeout=5)
                    partition = answer.topics[0].partitions[0]
                    assert (
                        partition.leader_id,
                        partition.leader_epoch,
                        partition.high_watermark,
                    ) == (1, 1, 2)
                    assert [voter.replica_id for voter in partition.current_voters] == [1]
                assert [node.node_id for node in answer.nodes] == [1]
                wrong = vote.VoteRequest(cluster_id="another", topics=vote_topics(TOPIC))
                answer = await connection.call(wrong, timeout=5)
                assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
                for version in (12, 13, 18):
                    answer = await connection.call(metadata_fetch(), version=version, timeout=5)
                    found = answer.responses[0].partitions[0]
                    assert found.error_code == 0
                    assert found.high_watermark == 2
                    assert len(found.records) == member.node.log.log.size_bytes


def metadata_fetch() -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=1,
        fetch_offset=0,
        last_fetched_epoch=0,
        partition_max_bytes=1 << 20,
    )
    return fetch.FetchRequest(
        cluster_id=CLUSTER_ID,
        max_wait_ms=500,
        min_bytes=0,
        topics=[fetch.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )
