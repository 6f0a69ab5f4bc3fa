"""Code that a type checker must refuse in the commented lines. The code is checked, and never run."""

from trimaran.broker.fetching.sessions import FetchSession, next_epoch
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.partitions.registry import Partitions
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.producers.marker import EndMarker
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.segment import Segment
from trimaran.quorum.controller.nodes.leases import Leases
from trimaran.quorum.controller.partitions.broker_changes import check_broker_epoch
from trimaran.quorum.metadata.image import MetadataImage, PartitionImage, Provenance
from trimaran.quorum.raft.types import OffsetAndEpoch, ReplicaKey
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    Address,
    BrokerEpoch,
    BrokerId,
    CoordinatorEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    Position,
    ProducerEpoch,
    ProducerId,
    TopicIdPartition,
    TopicPartition,
)
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest
from trimaran.wire.messages.streams_group_heartbeat import Topology
from trimaran.wire.messages.write_txn_markers import WritableTxnMarker


def read(offset: Offset) -> None: ...
def seek(position: Position) -> None: ...
def fence(epoch: LeaderEpoch) -> None: ...
def register(broker_id: BrokerId, epoch: BrokerEpoch) -> None: ...
def produce(producer_id: ProducerId, epoch: ProducerEpoch) -> None: ...
def find(partition: TopicPartition) -> None: ...


def offsets(offset: Offset, position: Position, epoch: LeaderEpoch, epochs: LeaderEpochs) -> None:
    read(offset)
    read(offset + 1)
    read(offset - 1)
    read(max(offset, Offset(0)))
    read(Offset(5))
    read(5)  # error: arg-type
    read(epoch)  # error: arg-type
    read(position)  # error: arg-type
    read(offset - offset)  # error: arg-type
    seek(offset)  # error: arg-type
    epochs.assign(epoch, offset)
    epochs.assign(offset, epoch)  # error: arg-type, arg-type
    epochs.epoch_for(epoch)  # error: arg-type
    fence(epochs.epoch_for(offset))


def epochs_and_ids(leader: LeaderEpoch, partition: PartitionEpoch, broker: BrokerEpoch) -> None:
    fence(leader)
    fence(LeaderEpoch(leader + 1))
    fence(leader + 1)  # error: arg-type
    fence(partition)  # error: arg-type
    register(BrokerId(1), broker)
    register(BrokerId(1), leader)  # error: arg-type
    produce(ProducerId(1), ProducerEpoch(0))
    produce(BrokerId(1), ProducerEpoch(0))  # error: arg-type


def nodes(node: NodeId, broker: BrokerId, image: PartitionImage) -> None:
    ReplicaKey(node)
    ReplicaKey(broker)
    ReplicaKey(1)  # error: arg-type
    image.directory_of(broker)
    image.directory_of(node)  # error: arg-type
    image.directory_of(image.leader)
    image.directory_of(image.partition_epoch)  # error: arg-type


def registrations(image: MetadataImage, request: BrokerHeartbeatRequest, now: float) -> None:
    Provenance(image.provenance.offset, image.provenance.epoch, 0)
    Provenance(image.provenance.epoch, image.provenance.offset, 0)  # error: arg-type, arg-type
    Leases(9.0).extend(request.broker_id, request.broker_epoch, now)
    Leases(9.0).extend(request.broker_epoch, request.broker_id, now)  # error: arg-type, arg-type
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    check_broker_epoch(image, request.broker_id, request.current_metadata_offset)  # error: arg-type


def names(topic_id: bytes) -> None:
    find(TopicPartition("orders", 3))
    find(("orders", 3))  # error: arg-type
    find(TopicIdPartition(topic_id, 3))  # error: arg-type
    find(Address("orders", 3))  # error: arg-type
    TopicPartition(topic_id, 3)  # error: arg-type


def producers(state: ProducerState, producer: ProducerId, epoch: ProducerEpoch) -> None:
    state.check_epoch(producer, epoch)
    state.check_epoch(producer, 0)  # error: arg-type
    state.check_epoch(epoch, producer)  # error: arg-type, arg-type
    read(state.end_offset)


def snapshots(offset: Offset, epoch: LeaderEpoch) -> None:
    OffsetAndEpoch(offset, epoch)
    OffsetAndEpoch(epoch, offset)  # error: arg-type, arg-type
    read(OffsetAndEpoch(offset, epoch).offset)
    fence(OffsetAndEpoch(offset, epoch).epoch)


def numbers_for_none(
    epochs: LeaderEpochs, producer: ProducerEpoch, marker: CoordinatorEpoch
) -> None:
    epochs.assign(NO_LEADER_EPOCH, NO_OFFSET)
    epochs.assign(NO_OFFSET, NO_LEADER_EPOCH)  # error: arg-type, arg-type
    fence(producer)  # error: arg-type
    fence(marker)  # error: arg-type


def leaders(partitions: Partitions, broker: BrokerId) -> None:
    partitions.leader_of(TopicPartition("orders", 3))
    partitions.leader_of("orders", 3)  # error: arg-type, arg-type
    partitions.find(broker)  # error: arg-type


def groups(
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    epoch: LeaderEpoch,
    topology: Topology,
) -> None:
    member.is_reconciled_to(request.member_epoch)
    member.is_reconciled_to(member.epoch + 1)
    member.is_reconciled_to(1)  # error: arg-type
    member.is_reconciled_to(epoch)  # error: arg-type
    member.is_reconciled_to(topology.epoch)  # error: arg-type


def sessions(session: FetchSession, request: FetchRequest) -> None:
    next_epoch(request.session_epoch)
    next_epoch(request.session_id)  # error: arg-type
    session.note_acl_epoch(session.acl_epoch)
    session.note_acl_epoch(session.epoch)  # error: arg-type


def requests(partitions: Partitions, wanted: FetchPartition, marker: WritableTxnMarker) -> None:
    partition = TopicPartition("orders", wanted.partition)
    read(wanted.fetch_offset)
    partitions.leader_of(partition, wanted.current_leader_epoch)
    partitions.leader_of(partition, wanted.fetch_offset)  # error: arg-type
    produce(marker.producer_id, marker.producer_epoch)
    EndMarker(True, marker.coordinator_epoch)
    EndMarker(True, marker.producer_epoch)  # error: arg-type
    FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)  # error: arg-type


def segments(segment: Segment, offset: Offset) -> None:
    position = segment.locate(offset, 4096) or Position(0)
    segment.truncate(position, offset, 4096)
    segment.truncate(offset, position, 4096)  # error: arg-type, arg-type
    read(segment.end_before(position, 4096))
    read(segment.end_of_batch(position))  # error: arg-type
