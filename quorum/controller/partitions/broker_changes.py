"""Changes of partitions when a broker leaves, returns, loses a log directory, or may have lost its disk.

Each decision reads the state and returns records; no function here changes state. For a broker with many partitions the
caller passes `keys` in batches, and omits `keys` for the rest: each batch by itself leaves the cluster consistent.
Source: `ReplicationControlManager.generateLeaderAndIsrUpdates` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from trimaran.node.runtime.steps import Steps, pieces
from trimaran.quorum.controller.partitions.changes import Election, change_partition
from trimaran.quorum.controller.partitions.state import ControllerState, MayLead, PartitionRef
from trimaran.quorum.metadata.image import (
    NO_LEADER,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerEpoch, BrokerId, TopicIdPartition
from trimaran.wire.records.brokers import BrokerRegistrationChangeRecord
from trimaran.wire.records.topics import PartitionChangeRecord
from trimaran.wire.schema import Message

# The number of partitions decided on before a step ends; an election takes 20 to 60 µs.
PARTITIONS_PER_CHECK = 50


def check_broker_epoch(
    image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> None:
    """Raises KafkaError STALE_BROKER_EPOCH for every incarnation except the registered one."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        registered = "none" if broker is None else str(broker.epoch)
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} has epoch {registered}, not {broker_epoch}",
        )


def changes_without(
    state: ControllerState,
    broker_id: BrokerId,
    directory: bytes | None = None,
    keys: Iterable[TopicIdPartition] | None = None,
) -> list[Message]:
    """Removes a broker from all ISRs and leaderships, or only from those of its replicas in one directory.

    Other leaders are elected.
    """
    records: list[Message] = []
    alone_stays = not state.has_eligible_leaders
    for ref in state.partition_refs(state.index.in_sync(broker_id) if keys is None else keys):
        partition = ref.partition
        if broker_id not in partition.isr or (alone_stays and _is_alone(partition, broker_id)):
            continue
        if directory is not None and partition.directory_of(broker_id) != directory:
            continue
        record = _without(state, ref, broker_id)
        if record is not None:
            records.append(record)
    return records


def taken_out(
    state: ControllerState,
    broker_id: BrokerId,
    directory: bytes | None = None,
    keys: Iterable[TopicIdPartition] | None = None,
) -> Steps[list[Message]]:
    """Returns `changes_without` in steps, for all partitions with the broker in their ISR if `keys` is None."""
    concerned = state.index.in_sync(broker_id) if keys is None else keys
    return in_steps(concerned, lambda some: changes_without(state, broker_id, directory, some))


def changes_of_offline_directories(
    state: ControllerState, broker: BrokerRegistration, failed: Collection[bytes]
) -> Steps[list[Message]]:
    """Takes the replicas in failed directories out of ISR and leadership, and elects other leaders; then removes the
    directories from the broker's registration. Source: `handleDirectoriesOffline` of Kafka's
    `ReplicationControlManager`, KIP-858.
    """
    online = [directory for directory in broker.directories if directory not in failed]
    if len(online) == len(broker.directories):
        return []
    records: list[Message] = []
    for directory in broker.directories:
        if directory in failed:
            records += yield from taken_out(state, broker.id, directory)
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online
    )
    return [*records, record]


def changes_after_loss(
    state: ControllerState, broker_id: BrokerId, keys: Iterable[TopicIdPartition] | None = None
) -> list[Message]:
    """Makes the changes of `changes_without` for a broker that may have lost its data, and removes it from ELRs
    (KIP-966, P4).
    """
    if keys is None:
        keys = dict.fromkeys((*state.index.in_sync(broker_id), *state.index.eligible(broker_id)))
    records: list[Message] = []
    for ref in state.partition_refs(keys):
        partition = ref.partition
        if broker_id in partition.isr or broker_id in partition.elr:
            record = _without(state, ref, broker_id, lost=broker_id)
            if record is not None:
                records.append(record)
    return records


def changes_when_unregistered(state: ControllerState, broker_id: BrokerId) -> Steps[list[Message]]:
    """Removes the broker from all ISRs and ELRs, since it may never return."""
    index = state.index
    keys = dict.fromkeys((*index.in_sync(broker_id), *index.eligible(broker_id)))
    return (yield from in_steps(keys, lambda batch: changes_after_loss(state, broker_id, batch)))


def in_steps(
    keys: Iterable[TopicIdPartition],
    decide: Callable[[Sequence[TopicIdPartition]], Sequence[Message]],
) -> Steps[list[Message]]:
    """Returns the records that `decide` returns for the keys, which it receives in batches."""
    records: list[Message] = []
    for batch in pieces(keys, PARTITIONS_PER_CHECK):
        records += decide(batch)
        yield len(batch)
    return records


def _is_alone(partition: PartitionImage, broker_id: BrokerId) -> bool:
    """Returns whether the partition has no leader and the broker is its only replica. The broker then stays in the ISR,
    which is never empty, so nothing changes.

    After a restart a broker has only such partitions if the replication factor is 1; they do not need separate
    decisions.
    """
    return partition.leader == NO_LEADER and (broker_id,) == partition.replicas == partition.isr


def _without(
    state: ControllerState, ref: PartitionRef, broker_id: BrokerId, lost: BrokerId | None = None
) -> PartitionChangeRecord | None:
    partition = ref.partition
    isr = tuple(replica for replica in partition.isr if replica != broker_id)
    return change_partition(
        ref,
        state,
        _all_but(broker_id, state.may_lead(partition)),
        wanted=partition._replace(isr=isr),
        election=election_of(state, ref),
        lost=lost,
    )


def election_of(state: ControllerState, ref: PartitionRef) -> Election:
    """Returns the kind of election that the topic's configs allow when a leader must be elected."""
    return Election.UNCLEAN if state.allows_unclean(ref.topic) else Election.ONLINE


def changes_with(
    state: ControllerState,
    returning: BrokerId | None = None,
    keys: Iterable[TopicIdPartition] | None = None,
) -> list[Message]:
    """Elects leaders for leaderless partitions when the broker `returning` is about to be unfenced; None considers only
    the brokers that are active already.
    """
    records: list[Message] = []
    if returning is None and not any(
        broker.active for broker in state.image.cluster.brokers.values()
    ):
        return records  # at cluster start: no partition has a leader, and no broker can lead
    for ref in state.partition_refs(state.index.leaderless if keys is None else keys):
        if ref.partition.leader != NO_LEADER:
            continue
        record = change_partition(
            ref,
            state,
            state.may_lead(ref.partition, returning),
            election=election_of(state, ref),
        )
        if record is not None:
            records.append(record)
    return records


def _all_but(broker_id: BrokerId, allowed: MayLead) -> MayLead:
    return lambda replica: replica != broker_id and allowed(replica)


def leads_any(state: ControllerState, broker_id: BrokerId) -> bool:
    return bool(state.index.led_by(broker_id))
