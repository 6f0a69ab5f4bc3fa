"""Changes to brokers and controllers. Source: Kafka's `ClusterDelta`, `BrokerRegistration`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from immutables import Map

from trimaran.quorum.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    ControllerRegistration,
    FeatureRange,
)
from trimaran.quorum.metadata.maps import updated
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import BrokerEpoch, BrokerId, NodeId
from trimaran.wire.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from trimaran.wire.text.endpoint import Endpoint

K = TypeVar("K")
V = TypeVar("V")


class ClusterDelta:
    """Changes to registrations. `changed_brokers` and `changed_controllers` map ids to the new registration, None for a
    removed one.
    """

    __slots__ = ("changed_brokers", "changed_controllers", "image")

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.changed_brokers: dict[BrokerId, BrokerRegistration | None] = {}
        self.changed_controllers: dict[NodeId, ControllerRegistration | None] = {}

    def broker(self, broker_id: BrokerId) -> BrokerRegistration | None:
        """Returns the broker as of the last record."""
        if broker_id in self.changed_brokers:
            return self.changed_brokers[broker_id]
        return self.image.brokers.get(broker_id)

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = BrokerRegistration(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(sorted(record.log_dirs)),
            cordoned_directories=_optional_tuple(record.cordoned_log_dirs),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )

    def unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = None

    def register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = ControllerRegistration(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            listeners=_endpoints(record.end_points),
            features=_features(record.features),
        )

    def unregister_controller(self, record: UnregisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = None

    def fence_broker(self, record: FenceBrokerRecord) -> None:
        broker = self._broker_at(record.id, record.epoch)
        self.changed_brokers[record.id] = replace(broker, fenced=True)

    def unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        broker = self._broker_at(record.id, record.epoch)
        self.changed_brokers[record.id] = replace(broker, fenced=False)

    def change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        """Applies a BrokerRegistrationChangeRecord: `fenced` is 1 to fence, -1 to unfence; `in_controlled_shutdown` is
        only ever set, never reset.
        """
        broker = self._broker_at(record.broker_id, record.broker_epoch)
        changed = replace(
            broker,
            fenced={1: True, -1: False}.get(record.fenced, broker.fenced),
            in_controlled_shutdown=record.in_controlled_shutdown == 1
            or broker.in_controlled_shutdown,
            directories=tuple(sorted(record.log_dirs)) if record.log_dirs else broker.directories,
            cordoned_directories=broker.cordoned_directories
            if record.cordoned_log_dirs is None
            else tuple(record.cordoned_log_dirs),
        )
        if changed != broker:
            self.changed_brokers[record.broker_id] = changed

    def _broker_at(self, broker_id: BrokerId, epoch: BrokerEpoch) -> BrokerRegistration:
        broker = self.broker(broker_id)
        if broker is None or broker.epoch != epoch:
            raise RemoteProtocolError(
                f"the metadata log changes broker {broker_id} at epoch {epoch}, which is not registered"
            )
        return broker

    def finish_snapshot(self) -> None:
        _finish(self.changed_brokers, self.image.brokers)
        _finish(self.changed_controllers, self.image.controllers)

    def apply(self) -> ClusterImage:
        if not self.changed_brokers and not self.changed_controllers:
            return self.image
        return ClusterImage(
            updated(self.image.brokers, self.changed_brokers),
            updated(self.image.controllers, self.changed_controllers),
        )


def _finish(changed: dict[K, V | None], present: Map[K, V]) -> None:
    """Marks entries that the snapshot lacks as removed, and drops unchanged entries."""
    for key, old in present.items():
        if key not in changed:
            changed[key] = None
        elif changed[key] == old:
            del changed[key]


def _endpoints(listed: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in listed)


def _features(listed: Iterable[Any]) -> tuple[FeatureRange, ...]:
    return tuple(
        FeatureRange(f.name, f.min_supported_version, f.max_supported_version) for f in listed
    )


def _optional_tuple(listed: list[bytes] | None) -> tuple[bytes, ...] | None:
    return None if listed is None else tuple(listed)
