"""AssignReplicasToDirs: a broker reports the directories of its replicas (KIP-858)."""

from tests.quorum.controller.handlers.controller_client import controller_client
from tests.quorum.metadata.build import uid
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

A, B = uid(601), uid(602)


def assignment(broker, topic_id, directory, index=0):
    partition = AssignReplicasToDirsRequestPartitionData(partition_index=index)
    topic = AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=[partition])
    found = AssignReplicasToDirsRequestDirectoryData(id=directory, topics=[topic])
    return AssignReplicasToDirsRequest(
        broker_id=broker.id, broker_epoch=broker.epoch, directories=[found]
    )


async def broker_of_two(one):
    broker = one.nodes.scripted_broker(one.connection, 1)
    assert await broker.register(log_dirs=[A, B]) == 0
    assert not (await broker.beat()).is_fenced
    return broker


async def test_reported_replica_directory_is_recorded(tmp_path):
    async with controller_client(tmp_path) as one:
        broker = await broker_of_two(one)
        topic = await one.create("t", [1])
        for directory in (A, B):
            answer = await one.call(assignment(broker, topic.id, directory))
            found = answer.directories[0].topics[0].partitions[0]
            assert (answer.error_code, found.error_code) == (0, 0)
            assert one.partition().directory_of(1) == directory


async def test_unknown_topics_and_partitions_are_not_assigned(tmp_path):
    async with controller_client(tmp_path) as one:
        broker = await broker_of_two(one)
        topic = await one.create("t", [1])
        codes = []
        for request in (assignment(broker, topic.id, A, 7), assignment(broker, uid(7), A)):
            answer = await one.call(request)
            codes.append(answer.directories[0].topics[0].partitions[0].error_code)
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


async def test_broker_of_old_epoch_assigns_nothing(tmp_path):
    async with controller_client(tmp_path) as one:
        broker = await broker_of_two(one)
        topic = await one.create("t", [1])
        broker.epoch -= 1
        answer = await one.call(assignment(broker, topic.id, A))
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
