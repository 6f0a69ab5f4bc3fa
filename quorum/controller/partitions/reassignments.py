"""Reassignment of partitions: AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860).

    replicas [1,2,3] → [1,2,4]:   replicas [1,2,4,3] adding [4] removing [3]   until 4 is in sync
                                  replicas [1,2,4]                             by the leader's AlterPartition

A new target replaces the present one; cancelling removes the replicas that were being added. Source: Kafka's
`ReplicationControlManager`, `PartitionReassignmentReplicas`, `PartitionReassignmentRevert`. The end of a reassignment
is in `changes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.partitions.broker_changes import election_of
from trimaran.quorum.controller.partitions.changes import Election, change_partition
from trimaran.quorum.controller.partitions.new_partitions import check_assignment, default_directory
from trimaran.quorum.controller.partitions.state import ControllerState, PartitionRef
from trimaran.quorum.controller.partitions.topics import RECORDS_MAX, text_of, too_much
from trimaran.quorum.metadata.image import PartitionImage
from trimaran.quorum.metadata.topic_names import quoted
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId, TopicIdPartition, TopicPartition
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from trimaran.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from trimaran.wire.records.topics import PartitionChangeRecord
from trimaran.wire.schema import Message


def alter_reassignments(
    request: AlterPartitionReassignmentsRequest, state: ControllerState
) -> Steps[Result[Message, AlterPartitionReassignmentsResponse]]:
    """Begins, changes and cancels the reassignments that are valid, in one atomic batch, with a result for each
    partition; one step for each topic or partition.

    Raises:
        KafkaError: POLICY_VIOLATION if there are too many; nothing is changed.
    """
    if sum(len(topic.partitions) for topic in request.topics) > RECORDS_MAX:
        raise too_much()
    records: dict[TopicPartition, Message] = {}
    responses = []
    for topic in request.topics:
        yield 1
        partitions = []
        for asked in topic.partitions:
            code, message = ErrorCode.NONE, None
            try:
                key = TopicPartition(topic.name, asked.partition_index)
                if key in records:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate partition.")
                record = _alter(
                    topic.name,
                    asked,
                    state,
                    may_change_factor=request.allow_replication_factor_change,
                )
                if record is not None:
                    records[key] = record
            except KafkaError as error:
                code, message = error.code, text_of(error)
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=asked.partition_index, error_code=code, error_message=message
                )
            )
            yield 1
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=responses,
    )
    return Result(list(records.values()), response)


def _alter(
    name: str, asked: ReassignablePartition, state: ControllerState, *, may_change_factor: bool
) -> PartitionChangeRecord | None:
    topic = state.image.topics.by_name.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {quoted(name)}."
        )
    partition = topic.partitions.get(asked.partition_index)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {name}:{asked.partition_index}.",
        )
    ref = PartitionRef(topic, asked.partition_index, partition)
    if asked.replicas is None:
        return _cancel(ref, state)
    check_assignment(asked.replicas, state.image)
    if not may_change_factor:
        _check_factor(partition, asked.replicas)
    return _begin(ref, asked.replicas, state)


def _check_factor(partition: PartitionImage, target: Sequence[BrokerId]) -> None:
    present = len(set(partition.replicas) - set(partition.removing))
    if present != len(target):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(target)}",
        )


def _begin(
    ref: PartitionRef, target: Sequence[BrokerId], state: ControllerState
) -> PartitionChangeRecord | None:
    """Returns the change that begins a move. All present replicas stay until the added ones are in sync.

    A replica that the replaced move was adding, and that is in the new target, is still being added. Apache Kafka
    forgets that, so that a move back to the original replicas never completes.
    """
    partition = ref.partition
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    before = set(partition.replicas) - set(partition.adding)
    wanted = _with_replicas(partition, (*target, *removing), state)._replace(
        removing=removing, adding=tuple(sorted(set(target) - before))
    )
    return change_partition(ref, state, state.may_lead(partition), wanted=wanted)


def _cancel(ref: PartitionRef, state: ControllerState) -> PartitionChangeRecord | None:
    """Returns the change back to the replicas before the move. If only replicas being added were in sync, an unclean
    election must choose one of the original replicas.
    """
    partition = ref.partition
    if not partition.adding and not partition.removing:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding)
    election = election_of(state, ref)
    if not isr:
        if not replicas:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Invalid replica assignment: addingReplicas contains all replicas.",
            )
        if election is not Election.UNCLEAN:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {ref.topic.name}:{ref.partition_id} because it would "
                "require an unclean leader election.",
            )
        isr = replicas[:1]
    wanted = _with_replicas(partition, replicas, state)._replace(isr=isr, adding=(), removing=())
    return change_partition(ref, state, state.may_lead(partition), wanted=wanted, election=election)


def _with_replicas(
    partition: PartitionImage, replicas: Sequence[BrokerId], state: ControllerState
) -> PartitionImage:
    return partition._replace(
        replicas=tuple(replicas),
        directories=tuple(
            partition.directory_of(replica)
            if replica in partition.replicas
            else default_directory(state.image, replica)
            for replica in replicas
        ),
    )


def list_reassignments(
    request: ListPartitionReassignmentsRequest, state: ControllerState
) -> Steps[Result[Message, ListPartitionReassignmentsResponse]]:
    """Lists the reassignments under way, all or those of the named partitions, each once; unknown partitions and
    partitions without a reassignment are omitted. One step for each partition.
    """
    topics: dict[str, OngoingTopicReassignment] = {}
    for ref in state.partition_refs(_asked(request, state)):
        yield 1
        partition = ref.partition
        if not partition.adding and not partition.removing:
            continue
        name = ref.topic.name
        topic = topics.setdefault(name, OngoingTopicReassignment(name=name, partitions=[]))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=ref.partition_id,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
        )
    return Result((), ListPartitionReassignmentsResponse(topics=list(topics.values())))


def _asked(
    request: ListPartitionReassignmentsRequest, state: ControllerState
) -> Iterable[TopicIdPartition]:
    if request.topics is None:
        return list(state.index.reassigning)
    named = state.image.topics.by_name
    return dict.fromkeys(
        TopicIdPartition(topic.id, index)
        for asked in request.topics
        if (topic := named.get(asked.name)) is not None
        for index in asked.partition_indexes
    )
