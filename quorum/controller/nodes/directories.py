"""The controller's decision about the directories of replicas, which brokers assign (KIP-858).

A replica in a directory that is not online (failed or not registered) leaves the ISR, and another replica is elected
leader. For directories that fail, see `changes_of_offline_directories` of
`quorum/controller/partitions/broker_changes.py`. Source: `handleAssignReplicasToDirs` of Kafka's
`ReplicationControlManager`.
"""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.partitions.broker_changes import (
    check_broker_epoch,
    election_of,
)
from trimaran.quorum.controller.partitions.changes import change_partition
from trimaran.quorum.controller.partitions.state import ControllerState, PartitionRef
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.image import BrokerRegistration, MetadataImage, PartitionImage
from trimaran.quorum.metadata.topics_delta import merge_change
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from trimaran.wire.records.topics import PartitionChangeRecord
from trimaran.wire.schema import Message


def names_directories(image: MetadataImage) -> bool:
    """Returns whether records can name directories; below that metadata.version brokers do not report them."""
    return image.features.metadata_version >= versions.DIRECTORY_ASSIGNMENT


def assign_replicas(
    request: AssignReplicasToDirsRequest, state: ControllerState
) -> Steps[Result[Message, AssignReplicasToDirsResponse]]:
    """Records the directories of replicas, with a result for each partition; one step for each directory, topic or
    partition.

    Raises:
        KafkaError: STALE_BROKER_EPOCH; UNSUPPORTED_VERSION if the cluster's metadata.version has no directories.
    """
    if not names_directories(state.image):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet."
        )
    check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    broker = state.image.cluster.brokers[request.broker_id]
    records: list[Message] = []
    changed: dict[TopicIdPartition, PartitionImage] = {}
    directories = []
    for directory in request.directories:
        yield 1
        topics = []
        for asked in directory.topics:
            yield 1
            is_known = asked.topic_id in state.image.topics.by_id
            partitions = []
            for index in (each_partition.partition_index for each_partition in asked.partitions):
                yield 1
                key = TopicIdPartition(asked.topic_id, index)
                code = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known else ErrorCode.UNKNOWN_TOPIC_ID
                )
                for ref in state.partition_refs([key]):
                    partition = changed.get(key, ref.partition)
                    is_replica = broker.id in partition.replicas
                    code = ErrorCode.NONE if is_replica else ErrorCode.NOT_LEADER_OR_FOLLOWER
                    record = _assign(state, ref._replace(partition=partition), broker, directory.id)
                    if record is not None:
                        records.append(record)
                        changed[key] = merge_change(partition, record)
                partitions.append(
                    AssignReplicasToDirsResponsePartitionData(
                        partition_index=index, error_code=code
                    )
                )
            topics.append(
                AssignReplicasToDirsResponseTopicData(
                    topic_id=asked.topic_id, partitions=partitions
                )
            )
        directories.append(
            AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics)
        )
    return Result(records, AssignReplicasToDirsResponse(directories=directories), atomic=False)


def _assign(
    state: ControllerState, ref: PartitionRef, broker: BrokerRegistration, directory: bytes
) -> PartitionChangeRecord | None:
    """Returns the change of the partition; None if the broker has no replica of it, or has it there already."""
    partition = ref.partition
    assigned = tuple(
        directory if replica == broker.id else known
        for replica, known in zip(partition.replicas, partition.directories, strict=True)
    )
    if assigned == partition.directories:
        return None
    wanted = partition._replace(directories=assigned)
    if not broker.has_online(directory):
        wanted = wanted._replace(
            isr=tuple(replica for replica in partition.isr if replica != broker.id)
        )
    return change_partition(
        ref, state, state.may_lead(wanted), wanted=wanted, election=election_of(state, ref)
    )
