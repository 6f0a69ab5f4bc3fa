"""The controller's decisions about the registration, fencing and removal of brokers. For their heartbeats, see
`quorum/controller/handlers/broker_heartbeat.py`.

Source: Kafka's `ClusterControlManager`, KIP-631, KIP-841. Not implemented: ZooKeeper migration.
"""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.nodes.directories import names_directories
from trimaran.quorum.controller.partitions.broker_changes import (
    changes_after_loss,
    changes_when_unregistered,
    changes_without,
    taken_out,
)
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.quorum.metadata.features import check_supported
from trimaran.quorum.metadata.image import (
    BrokerRegistration,
    FeatureRange,
    MetadataImage,
    PartitionImage,
)
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerEpoch, BrokerId, TopicIdPartition
from trimaran.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from trimaran.wire.messages.unregister_broker import UnregisterBrokerResponse
from trimaran.wire.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from trimaran.wire.schema import Message
from trimaran.wire.text.endpoint import Endpoint

FENCE, UNFENCE = 1, -1
# Lower ids are reserved and name no directory: unassigned, lost, migrating, and 97 more (KIP-858).
_RESERVED_DIRECTORY_END = (100).to_bytes(16, "big")


class ProcessedPartitions:
    """The partitions that earlier steps decided on, with the state that resulted.

    A broker that is the last member of an ISR stays in it, so such a partition remains in the broker's index. Without
    this object, the last step of a series would decide on all of these partitions again.
    """

    def __init__(self) -> None:
        # The number of entries is bounded by the partitions of one broker.
        self._left: dict[TopicIdPartition, PartitionImage] = {}

    def note(self, state: ControllerState, keys: Iterable[TopicIdPartition]) -> None:
        """Stores the partitions; `state` is the state after the decision."""
        for ref in state.partition_refs(keys):
            self._left[ref.key] = ref.partition

    def others(
        self, state: ControllerState, keys: Iterable[TopicIdPartition]
    ) -> list[TopicIdPartition]:
        """Returns the keys without a decision, and those with partitions that have changed since."""
        if not self._left:
            return list(keys)
        return [
            ref.key
            for ref in state.partition_refs(keys)
            if self._left.get(ref.key) is not ref.partition
        ]


# --- registration


def check_registration(
    request: BrokerRegistrationRequest,
    image: MetadataImage,
    *,
    cluster_id: str,
    other_is_alive: bool,
) -> None:
    """Checks that the broker may register; `other_is_alive` means that the registered incarnation still has its lease.

    Raises:
        KafkaError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION, UNSUPPORTED_VERSION,
            BROKER_ID_NOT_REGISTERED (a broker that migrates from ZooKeeper).
    """
    if request.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"this is cluster {cluster_id}, not {request.cluster_id}",
        )
    if request.broker_id < 0:  # -1 means no leader or no replica
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"{request.broker_id} is no broker's id")
    known = image.cluster.brokers.get(request.broker_id)
    if other_is_alive and not _is_same(request, known):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {request.broker_id} is registered by a process whose session has not ended",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers of ZooKeeper mode cannot join"
        )
    _check_directories(request, image)
    _check_listeners(request)
    ranges = [
        FeatureRange(f.name, f.min_supported_version, f.max_supported_version)
        for f in request.features
    ]
    check_supported(image.features, ranges, f"broker {request.broker_id}")


def register_broker(
    request: BrokerRegistrationRequest,
    state: ControllerState,
    *,
    broker_epoch: BrokerEpoch,
    keys: Iterable[TopicIdPartition] | None = None,
) -> Result[Message, BrokerRegistrationResponse]:
    """Registers an incarnation after `check_registration`; the same incarnation keeps its epoch and state.

    `broker_epoch` is the offset at which the records will be written. `keys` are the partitions that the old
    incarnation has not given up yet; None means all of its partitions.
    """
    record = _registration_record(request, broker_epoch, state.image)
    known = state.image.cluster.brokers.get(request.broker_id)
    if known is not None and _is_same(request, known):
        record.broker_epoch = known.epoch
        record.fenced = known.fenced
        record.in_controlled_shutdown = known.in_controlled_shutdown
        return Result([record], BrokerRegistrationResponse(broker_epoch=known.epoch))
    # The registration comes last: if only a part of the records is written, the registration is repeated completely.
    records = [*changes_of_new_incarnation(request, state, keys), record]
    return Result(records, BrokerRegistrationResponse(broker_epoch=broker_epoch), atomic=False)


def _is_same(request: BrokerRegistrationRequest, known: BrokerRegistration | None) -> bool:
    return known is not None and known.incarnation_id == request.incarnation_id


def partitions_of_old_incarnation(
    request: BrokerRegistrationRequest, state: ControllerState, decided: ProcessedPartitions
) -> list[TopicIdPartition]:
    """Returns the keys for `changes_of_new_incarnation`; empty for the same incarnation."""
    known = state.image.cluster.brokers.get(request.broker_id)
    if _is_same(request, known):
        return []
    keys = list(state.index.in_sync(request.broker_id))
    if _may_have_lost(request, known, state):
        keys += state.index.eligible(request.broker_id)
    return decided.others(state, keys)


def changes_of_new_incarnation(
    request: BrokerRegistrationRequest,
    state: ControllerState,
    keys: Iterable[TopicIdPartition] | None = None,
) -> list[Message]:
    """Returns the changes of partitions that the old incarnation led or that had it in their ISR: the new one may have
    lost its disk.

    The new incarnation stays eligible if it names the previous epoch of the broker, which the broker stores after it
    has flushed all logs (KIP-966).
    """
    known = state.image.cluster.brokers.get(request.broker_id)
    if _may_have_lost(request, known, state):
        return changes_after_loss(state, request.broker_id, keys)
    return changes_without(state, request.broker_id, keys=keys)


def _may_have_lost(
    request: BrokerRegistrationRequest, known: BrokerRegistration | None, state: ControllerState
) -> bool:
    """Returns whether the broker may have lost records and cannot stay eligible (KIP-966); always false without
    eligible leader replicas.
    """
    clean = known is not None and known.epoch == request.previous_broker_epoch
    return state.has_eligible_leaders and not clean


def _registration_record(
    request: BrokerRegistrationRequest, broker_epoch: BrokerEpoch, image: MetadataImage
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        rack=request.rack,
        log_dirs=list(request.log_dirs) if names_directories(image) else [],
    )


def _check_directories(request: BrokerRegistrationRequest, image: MetadataImage) -> None:
    if not names_directories(image):
        return
    directories = request.log_dirs
    why = None
    if not directories:
        why = "names no log directory"
    elif any(directory < _RESERVED_DIRECTORY_END for directory in directories):
        why = "names a reserved id as a log directory"
    elif len(set(directories)) != len(directories):
        why = "names a log directory twice"
    for broker in image.cluster.brokers.values():
        shared = set(broker.directories) & set(directories)
        if shared and broker.id != request.broker_id:
            why = f"names directory {uuid_to_text(shared.pop())}, which broker {broker.id} has"
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {request.broker_id} {why}")


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    names = [listener.name for listener in request.listeners]
    if not all(names) or len(set(names)) != len(names):
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            f"the listeners of broker {request.broker_id} need a name each",
        )


def same_endpoints(broker: BrokerRegistration, request: BrokerRegistrationRequest) -> bool:
    """Returns whether the request has the broker's endpoints. Two processes cannot listen at one address, so a broker
    with the same endpoints has replaced the previous one.
    """
    claimed = {Endpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners}
    return bool(claimed) and claimed == set(broker.listeners)


# --- fencing


def fence_broker(
    state: ControllerState,
    broker: BrokerRegistration,
    keys: Iterable[TopicIdPartition] | None = None,
) -> Steps[list[Message]]:
    """Takes the broker out of all ISRs, or only of those of the remaining `keys`, then fences it."""
    changes = yield from taken_out(state, broker.id, keys=keys)
    return [*changes, registration_change(broker, fenced=FENCE)]


def registration_change(
    broker: BrokerRegistration, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


# --- removal


def unregister_broker(
    state: ControllerState, broker_id: BrokerId
) -> Steps[Result[Message, UnregisterBrokerResponse]]:
    """Removes a broker that will not return, in steps of many partitions; its replicas stay assigned to it.

    Raises:
        KafkaError: BROKER_ID_NOT_REGISTERED.
    """
    broker = state.image.cluster.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {broker_id} is not currently registered",
        )
    removal = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    changes = yield from changes_when_unregistered(state, broker_id)
    return Result([*changes, removal], UnregisterBrokerResponse(), atomic=False)
