"""Items that a request names twice are answered together: no requested data is missing."""

from __future__ import annotations

import contextlib

import trio

from tests.badinput.peer import Peer
from tests.broker.real_state import (
    GROUP,
    PARTITIONS,
    TOPIC,
    TRANSACTION,
    make_some_of_everything,
)
from tests.broker.test_repeated_items import SETTINGS
from tests.cluster.in_process import cluster
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from trimaran.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from trimaran.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from trimaran.wire.messages.describe_transactions import DescribeTransactionsRequest
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

E = ErrorCode


async def test_repeated_items_are_answered_together(tmp_path):
    async with cluster(tmp_path, **SETTINGS) as running:
        host, _, port = running.bootstrap.rpartition(":")
        address = (host, int(port))
        await trio.to_thread.run_sync(make_some_of_everything, address)
        [broker] = running.brokers.values()
        topic_id = broker.parts.metadata.image.topics.by_name[TOPIC].id
        await trio.to_thread.run_sync(check_all, address, topic_id)


def check_all(address, topic_id):
    with contextlib.closing(Peer(address)) as peer:
        check_metadata(peer, topic_id)
        check_offsets(peer, topic_id)
        check_groups_and_transactions(peer)
        check_partitions(peer)


def check_metadata(peer, topic_id):
    topics = [
        MetadataRequestTopic(topic_id=topic_id, name=None),
        MetadataRequestTopic(topic_id=topic_id, name=TOPIC),
        MetadataRequestTopic(topic_id=topic_id, name="other"),
    ]
    [topic] = peer.ask(MetadataRequest(topics=topics), 13).topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, TOPIC, PARTITIONS)
    names = [MetadataRequestTopic(name=name) for name in ("none", TOPIC, "none", TOPIC)]
    found = peer.ask(MetadataRequest(topics=names), 12).topics
    assert [entry.name for entry in found] == ["none", TOPIC]


def check_offsets(peer, topic_id):
    def group(name, *topics):
        asked = [
            OffsetFetchRequestTopics(name=TOPIC, topic_id=topic_id, partition_indexes=indexes)
            for indexes in topics
        ]
        return OffsetFetchRequestGroup(group_id=name, topics=asked or None)

    def told(answer):
        return [
            (group.group_id, sorted(p.partition_index for t in group.topics for p in t.partitions))
            for group in answer.groups
        ]

    for version in (8, 10):
        parts = [group(GROUP, [0, 1, 0], [1, 2]), group("none", [5]), group(GROUP, [3], [0])]
        answer = peer.ask(OffsetFetchRequest(groups=parts), version)
        assert told(answer) == [(GROUP, [0, 1, 2, 3]), ("none", [5])]
        assert [len(group.topics) for group in answer.groups] == [1, 1]
        all_of_it = [group(GROUP, [0]), group(GROUP), group(GROUP, [1])]
        answer = peer.ask(OffsetFetchRequest(groups=all_of_it), version)
        assert told(answer) == [(GROUP, list(range(PARTITIONS)))]
    twice = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[4, 4])
    [topic] = peer.ask(OffsetFetchRequest(group_id=GROUP, topics=[twice, twice]), 7).topics
    assert [partition.partition_index for partition in topic.partitions] == [4]


def check_groups_and_transactions(peer):
    found = peer.ask(DescribeGroupsRequest(groups=["b", GROUP, "b", GROUP]), 6).groups
    assert [(group.group_id, len(group.members)) for group in found] == [("b", 0), (GROUP, 1)]
    keys = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP, "b", GROUP])
    assert [coordinator.key for coordinator in peer.ask(keys, 4).coordinators] == [GROUP, "b"]
    ids = DescribeTransactionsRequest(transactional_ids=[TRANSACTION, "b", TRANSACTION])
    first, second = peer.ask(ids, 0).transaction_states
    assert (first.transactional_id, len(first.topics[0].partitions)) == (TRANSACTION, PARTITIONS)
    assert (second.transactional_id, second.error_code) == ("b", E.TRANSACTIONAL_ID_NOT_FOUND)


def check_partitions(peer):
    asked = [TopicRequest(name=TOPIC, partition_indexes=indexes) for indexes in ([1, 0, 1], [2, 0])]
    [topic] = peer.ask(DescribeProducersRequest(topics=asked), 0).topics
    assert [partition.partition_index for partition in topic.partitions] == [1, 0, 2]
    asked = [
        DescribableLogDirTopic(topic=TOPIC, partitions=indexes) for indexes in ([0, 0], [1, 0])
    ]
    [result] = peer.ask(DescribeLogDirsRequest(topics=asked), 4).results
    [topic] = result.topics
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    offsets = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (99, 0)]
    asked = [DeleteRecordsTopic(name=TOPIC, partitions=[offset]) for offset in offsets]
    [topic] = peer.ask(DeleteRecordsRequest(topics=asked, timeout_ms=1000), 2).topics
    assert [partition.error_code for partition in topic.partitions] == [E.NONE], (
        "the last offset counts"
    )
    moves = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])])
        for path in ("/none", result.log_dir)
    ]
    [topic] = peer.ask(AlterReplicaLogDirsRequest(dirs=moves), 2).results
    assert [partition.error_code for partition in topic.partitions] == [E.NONE], (
        "the last directory counts"
    )
