"""Who leads a partition and who is in sync: elections, ISR changes, AlterPartition, ElectLeaders.

Every decision reads an image and returns records; nothing here changes state. Source: Kafka's `PartitionChangeBuilder`,
`ReplicationControlManager`. Elections are clean: only a member of the ISR leads, and the last one stays in the ISR when it goes.
Left out: unclean elections, eligible leader replicas (KIP-966, feature level 0), completing reassignments.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any, NamedTuple

from quorum.metadata.image import (
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from quorum.metadata.topics_delta import merge_change
from quorum.runtime.deferred import Result
from wire.errors import ErrorCode, KafkaError
from wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from wire.records.topics import PartitionChangeRecord
from wire.schema import Message

RECOVERED, RECOVERING = 0, 1
PREFERRED, UNCLEAN = 0, 1
ANY_BROKER_EPOCH = -1

MayLead = Callable[[int], bool]


class Place(NamedTuple):
    """A partition and where it is."""

    topic: TopicImage
    partition_id: int
    partition: PartitionImage


def all_partitions(image: MetadataImage) -> Iterator[Place]:
    for topic in image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            yield Place(topic, index, partition)


def may_lead(
    image: MetadataImage, partition: PartitionImage, returning: int | None = None
) -> MayLead:
    """Active brokers may, and one that is about to be unfenced, if its directory of the partition is online."""

    def check(broker_id: int) -> bool:
        broker = image.cluster.brokers.get(broker_id)
        return (
            broker is not None
            and (broker.active or broker_id == returning)
            and broker.has_online(partition.directory_of(broker_id))
        )

    return check


def elect(
    partition: PartitionImage, isr: Container[int], acceptable: MayLead, *, preferred: bool = False
) -> int:
    """The leader that the partition should have with this ISR; -1 if nobody can lead.

    The present leader stays if it can, unless the preferred one is wanted and can.
    """
    first = (partition.preferred_leader, partition.leader) if preferred else (partition.leader,)
    candidates: tuple[int, ...] = (*first, *partition.replicas)
    for replica in candidates:
        if replica in isr and acceptable(replica):
            return replica
    return NO_LEADER


def change_partition(
    place: Place,
    acceptable: MayLead,
    *,
    isr: tuple[int, ...] | None = None,
    preferred: bool = False,
    leader_recovery_state: int | None = None,
) -> PartitionChangeRecord | None:
    """The record that brings the partition to this ISR and the leader that follows from it; None for no change.

    An ISR is never written empty. A leader epoch begins only with a new leader: a shrink alone does not begin one.
    """
    topic, partition_id, partition = place
    wanted = partition.isr if isr is None else isr
    changes: dict[str, Any] = {}
    leader = elect(partition, wanted, acceptable, preferred=preferred)
    if leader != partition.leader:
        changes["leader"] = leader
    if wanted and wanted != partition.isr:
        changes["isr"] = list(wanted)
    if partition.elr:
        changes["eligible_leader_replicas"] = []
    if leader_recovery_state not in (None, partition.leader_recovery_state):
        changes["leader_recovery_state"] = leader_recovery_state
    if not changes:
        return None
    return PartitionChangeRecord(topic_id=topic.id, partition_id=partition_id, **changes)


def changes_without(
    image: MetadataImage, broker_id: int, directory: bytes | None = None
) -> list[Message]:
    """Takes a broker out of all ISRs and leaderships, or only those of its replicas in one directory."""
    records: list[Message] = []
    for place in all_partitions(image):
        partition = place.partition
        if broker_id not in partition.isr and partition.leader != broker_id:
            continue
        if directory is not None and partition.directory_of(broker_id) != directory:
            continue
        record = change_partition(
            place,
            _all_but(broker_id, may_lead(image, partition)),
            isr=tuple(replica for replica in partition.isr if replica != broker_id),
        )
        if record is not None:
            records.append(record)
    return records


def changes_with(image: MetadataImage, broker_id: int) -> list[Message]:
    """Leaders for partitions without one, now that a broker is about to be unfenced."""
    records: list[Message] = []
    for place in all_partitions(image):
        if place.partition.leader != NO_LEADER:
            continue
        record = change_partition(place, may_lead(image, place.partition, broker_id))
        if record is not None:
            records.append(record)
    return records


def _all_but(broker_id: int, allowed: MayLead) -> MayLead:
    return lambda replica: replica != broker_id and allowed(replica)


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    return any(place.partition.leader == broker_id for place in all_partitions(image))


def balance_leaders(image: MetadataImage, changes_max: int) -> list[Message]:
    """Moves leadership back to preferred replicas that can take it, at most so many partitions at a time."""
    records: list[Message] = []
    for place in all_partitions(image):
        partition = place.partition
        if partition.leader == partition.preferred_leader:
            continue
        record = change_partition(place, may_lead(image, partition), preferred=True)
        if record is not None:
            records.append(record)
            if len(records) >= changes_max:
                break
    return records


# --- AlterPartition


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> None:
    """Raises KafkaError STALE_BROKER_EPOCH for every incarnation but the registered one."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        registered = "none" if broker is None else str(broker.epoch)
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} has epoch {registered}, not {broker_epoch}",
        )


def alter_partition(
    request: AlterPartitionRequest, image: MetadataImage
) -> Result[Message, AlterPartitionResponse]:
    """A leader's proposals of ISRs; each partition is answered by itself.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    changed: dict[tuple[bytes, int], PartitionImage] = {}
    answers = []
    for asked in request.topics:
        topic = image.topics.by_id.get(asked.topic_id)
        partitions = []
        for proposal in asked.partitions:
            index = proposal.partition_index
            if topic is None:
                partitions.append(_refused(index, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            partition = changed.get((topic.id, index)) or topic.partitions.get(index)
            code = check_proposal(request.broker_id, partition, proposal, image)
            if code is not ErrorCode.NONE or partition is None:
                partitions.append(_refused(index, code))
                continue
            record = change_partition(
                Place(topic, index, partition),
                may_lead(image, partition),
                isr=tuple(one.broker_id for one in proposed_isr(proposal)),
                leader_recovery_state=proposal.leader_recovery_state,
            )
            if record is not None:
                records.append(record)
                partition = changed[topic.id, index] = merge_change(partition, record)
            partitions.append(_accepted(index, partition))
        answers.append(
            AlterPartitionResponseTopicData(topic_id=asked.topic_id, partitions=partitions)
        )
    return Result(records, AlterPartitionResponse(topics=answers), atomic=False)


def proposed_isr(proposal: AlterPartitionRequestPartitionData) -> list[BrokerState]:
    """Version 2 has plain ids: their epochs are not checked."""
    return proposal.new_isr_with_epochs or [
        BrokerState(broker_id=broker_id) for broker_id in proposal.new_isr
    ]


def check_proposal(
    broker_id: int,
    partition: PartitionImage | None,
    proposal: AlterPartitionRequestPartitionData,
    image: MetadataImage,
) -> ErrorCode:
    """What is wrong with a proposal. Whoever is ahead of us knows a later controller: NOT_CONTROLLER."""
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
    isr = [one.broker_id for one in proposed_isr(proposal)]
    state = proposal.leader_recovery_state
    if len(set(isr)) != len(isr) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if not set(isr) <= set(partition.replicas) or state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state != RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(one, partition, image) for one in proposed_isr(proposal)):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(state: BrokerState, partition: PartitionImage, image: MetadataImage) -> bool:
    """A broker that is fenced, going, or another incarnation than the leader saw may have lost its disk; or it says so itself."""
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
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
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


# --- ElectLeaders


def elect_leaders(
    request: ElectLeadersRequest, image: MetadataImage
) -> Result[Message, ElectLeadersResponse]:
    """Elections that an operator asks for. Type 1 (unclean) elects a clean leader where there is none, if one can be had.

    Raises:
        KafkaError: INVALID_REQUEST, no such type of election.
    """
    kind = request.election_type
    if kind not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown election type {kind}")
    asked = request.topic_partitions
    wanted = _every_partition(image) if asked is None else asked
    records: list[Message] = []
    results = []
    for topic in wanted:
        partitions = []
        for index in dict.fromkeys(topic.partitions):
            code, record = _elect_one(image, topic.topic, index, kind)
            if record is not None:
                records.append(record)
            if asked is not None or code is not ErrorCode.ELECTION_NOT_NEEDED:
                partitions.append(PartitionResult(partition_id=index, error_code=code))
        if asked is not None or partitions:
            results.append(ReplicaElectionResult(topic=topic.topic, partition_result=partitions))
    response = ElectLeadersResponse(replica_election_results=results)
    return Result(records, response, atomic=False)


def _every_partition(image: MetadataImage) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic=name, partitions=list(topic.partitions))
        for name, topic in image.topics.by_name.items()
    ]


def _elect_one(
    image: MetadataImage, name: str, index: int, kind: int
) -> tuple[ErrorCode, PartitionChangeRecord | None]:
    topic = image.topics.by_name.get(name)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    needless = (
        partition.leader == partition.preferred_leader
        if kind == PREFERRED
        else partition.leader != NO_LEADER
    )
    if needless:
        return ErrorCode.ELECTION_NOT_NEEDED, None
    record = change_partition(
        Place(topic, index, partition), may_lead(image, partition), preferred=kind == PREFERRED
    )
    if record is not None:
        return ErrorCode.NONE, record
    if kind == PREFERRED:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, None
