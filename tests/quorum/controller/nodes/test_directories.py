"""AssignReplicasToDirs: the directories of a broker's replicas, and the effects of an offline directory."""

import pytest

from tests.quorum.controller.states import state_of
from tests.quorum.metadata.build import (
    broker,
    change,
    features,
    image_of,
    partition,
    topic,
    uid,
)
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.nodes.directories import assign_replicas
from trimaran.quorum.metadata.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

TOPIC, HERE, THERE = uid(1), uid(501), uid(601)
NOWHERE = UNASSIGNED_DIRECTORY
IMAGE = image_of(
    features(),
    broker(1, log_dirs=[HERE, THERE]),
    broker(2),
    topic("t", 1),
    partition(1, 0, [1, 2], directories=[NOWHERE, uid(502)]),
    partition(1, 1, [2, 1], directories=[uid(502), HERE]),
    partition(1, 2, [2], directories=[uid(502)]),
)


def request(directory, *indexes, topic_id=TOPIC, epoch=None):
    return AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=IMAGE.cluster.brokers[1].epoch if epoch is None else epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            AssignReplicasToDirsRequestPartitionData(partition_index=index)
                            for index in indexes
                        ],
                    )
                ],
            )
        ],
    )


def codes(result):
    [directory] = result.response.directories
    [of_topic] = directory.topics
    return {
        partition.partition_index: ErrorCode.of(partition.error_code)
        for partition in of_topic.partitions
    }


def test_assigned_directories_are_recorded():
    result = at_once(assign_replicas(request(THERE, 0, 1), state_of(IMAGE)))
    assert result.records == [
        change(1, 0, directories=[THERE, uid(502)]),
        change(1, 1, directories=[uid(502), THERE]),
    ]
    found = image_of(*result.records, base=IMAGE).topics.by_name["t"].partitions
    assert found[0].directory_of(1) == found[1].directory_of(1) == THERE
    assert (found[0].leader_epoch, found[0].partition_epoch) == (0, 1)
    assert codes(result) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}


def test_repeated_directory_assignments_change_nothing():
    assert at_once(assign_replicas(request(HERE, 1), state_of(IMAGE))).records == []
    assert len(at_once(assign_replicas(request(HERE, 0, 0), state_of(IMAGE))).records) == 1


@pytest.mark.parametrize("directory", [LOST_DIRECTORY, uid(777)])
def test_replica_without_online_directory_loses_leadership(directory):
    result = at_once(assign_replicas(request(directory, 0, 1), state_of(IMAGE)))
    assert result.records == [
        change(1, 0, isr=[2], leader=2, directories=[directory, uid(502)]),
        change(1, 1, isr=[2], directories=[uid(502), directory]),
    ]


def test_each_assignment_has_its_own_error():
    assert codes(at_once(assign_replicas(request(HERE, 0, 2, 9), state_of(IMAGE)))) == {
        0: ErrorCode.NONE,
        2: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    unknown = at_once(assign_replicas(request(HERE, 0, topic_id=uid(9)), state_of(IMAGE)))
    assert codes(unknown) == {0: ErrorCode.UNKNOWN_TOPIC_ID}


def test_assignments_of_many_partitions_may_span_batches():
    assert not at_once(assign_replicas(request(THERE, 0), state_of(IMAGE))).atomic


def test_directories_need_metadata_version_3_7():
    """Directories were introduced in metadata.version 17."""
    assert at_once(assign_replicas(request(THERE, 0), state_of(image_of(features(17), base=IMAGE))))
    with pytest.raises(KafkaError) as refused:
        at_once(assign_replicas(request(THERE, 0), state_of(image_of(features(16), base=IMAGE))))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_assignment_of_another_incarnation_is_refused():
    with pytest.raises(KafkaError) as refused:
        at_once(assign_replicas(request(HERE, 0, epoch=1234), state_of(IMAGE)))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
