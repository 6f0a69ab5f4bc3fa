"""Decides AlterPartition requests: the ISR changes that a leader may make to its partitions.

Source: `ReplicationControlManager.alterPartition` of Kafka, KIP-497, KIP-704 (recovery), KIP-841 and KIP-903 (eligible
brokers).
"""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.partitions.broker_changes import check_broker_epoch, election_of
from trimaran.quorum.controller.partitions.changes import RECOVERED, RECOVERING, change_partition
from trimaran.quorum.controller.partitions.state import ControllerState, PartitionRef
from trimaran.quorum.metadata.image import MetadataImage, PartitionImage
from trimaran.quorum.metadata.topics_delta import merge_change
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicIdPartition,
)
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from trimaran.wire.records.topics import PartitionChangeRecord
from trimaran.wire.schema import Message

ANY_BROKER_EPOCH = BrokerEpoch(-1)


def alter_partition(
    request: AlterPartitionRequest, state: ControllerState
) -> Steps[Result[Message, AlterPartitionResponse]]:
    """Applies a leader's ISR proposals, with a result for each partition; one step for each topic or partition.

    A proposal that completes a reassignment may end the leadership of the proposing broker: then the response is
    NEW_LEADER_ELECTED although the change is made.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    changed: dict[TopicIdPartition, PartitionImage] = {}
    responses = []
    for asked in request.topics:
        yield 1
        topic = state.image.topics.by_id.get(asked.topic_id)
        partitions = []
        for proposal in asked.partitions:
            yield 1
            index = proposal.partition_index
            if topic is None:
                partitions.append(_refused(index, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            partition = changed.get(TopicIdPartition(topic.id, index)) or topic.partitions.get(
                index
            )
            code = check_proposal(request.broker_id, partition, proposal, state.image)
            if code is not ErrorCode.NONE or partition is None:
                partitions.append(_refused(index, code))
                continue
            found = _decide(PartitionRef(topic, index, partition), proposal, state)
            if found is not None:
                records.append(found)
                partition = changed[TopicIdPartition(topic.id, index)] = merge_change(
                    partition, found
                )
            if partition.leader != request.broker_id:
                partitions.append(_refused(index, ErrorCode.NEW_LEADER_ELECTED))
            else:
                partitions.append(_accepted(index, partition))
        responses.append(
            AlterPartitionResponseTopicData(topic_id=asked.topic_id, partitions=partitions)
        )
    return Result(records, AlterPartitionResponse(topics=responses), atomic=False)


def _decide(
    ref: PartitionRef, proposal: AlterPartitionRequestPartitionData, state: ControllerState
) -> PartitionChangeRecord | None:
    wanted = ref.partition._replace(
        isr=tuple(replica.broker_id for replica in proposed_isr(proposal)),
        leader_recovery_state=proposal.leader_recovery_state,
    )
    return change_partition(
        ref,
        state,
        state.may_lead(ref.partition),
        wanted=wanted,
        election=election_of(state, ref),
    )


def proposed_isr(proposal: AlterPartitionRequestPartitionData) -> list[BrokerState]:
    """Returns the proposed ISR. Version 2 of the request has plain ids; their epochs are not checked."""
    return proposal.new_isr_with_epochs or [
        BrokerState(broker_id=broker_id) for broker_id in proposal.new_isr
    ]


def check_proposal(
    broker_id: BrokerId,
    partition: PartitionImage | None,
    proposal: AlterPartitionRequestPartitionData,
    image: MetadataImage,
) -> ErrorCode:
    """Returns the error of a proposal. NOT_CONTROLLER if the leader's epoch is ahead of ours: the leader knows a later
    controller.
    """
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if (
        proposal.leader_epoch > partition.leader_epoch
        or proposal.partition_epoch > partition.partition_epoch
    ):
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [replica.broker_id for replica in proposed_isr(proposal)]
    state = proposal.leader_recovery_state
    if len(set(isr)) != len(isr) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if not set(isr) <= set(partition.replicas) or state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state != RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(replica, partition, image) for replica in proposed_isr(proposal)):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(state: BrokerState, partition: PartitionImage, image: MetadataImage) -> bool:
    """Returns whether the broker may join the ISR. It must not be fenced or shutting down, it must be the incarnation
    that the leader saw, since a later one may have lost its disk, and it must not have reported the directory as
    offline.
    """
    broker = image.cluster.brokers.get(state.broker_id)
    return (
        broker is not None
        and broker.active
        and broker.has_online(partition.directory_of(broker.id))
        and state.broker_epoch in (ANY_BROKER_EPOCH, broker.epoch)
    )


def _refused(index: int, code: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        error_code=code,
        leader_id=BrokerId(0),
        leader_epoch=LeaderEpoch(0),
        isr=[],
        partition_epoch=PartitionEpoch(0),
    )


def _accepted(index: int, partition: PartitionImage) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
