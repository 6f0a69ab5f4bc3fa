"""Changes of registered brokers and controllers since an image. Source: Kafka's `ClusterDelta` (KIP-631, KIP-919)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from quorum.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    ControllerRegistration,
    Endpoint,
    FeatureRange,
)
from wire.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)


class ClusterDelta:
    """Collects changes; a broker is None when it was unregistered."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.changed_brokers: dict[int, BrokerRegistration | None] = {}
        self.changed_controllers: dict[int, ControllerRegistration | None] = {}

    def replay_register(self, record: RegisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = BrokerRegistration(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned_directories=tuple(record.cordoned_log_dirs or ()),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )

    def replay_unregister(self, record: UnregisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = None

    def replay_fence(self, record: FenceBrokerRecord) -> None:
        self.changed_brokers[record.id] = replace(self.broker(record.id), fenced=True)

    def replay_unfence(self, record: UnfenceBrokerRecord) -> None:
        self.changed_brokers[record.id] = replace(self.broker(record.id), fenced=False)

    def replay_change(self, record: BrokerRegistrationChangeRecord) -> None:
        """`fenced`: 1 fences, -1 unfences, 0 leaves; `in_controlled_shutdown`: 1 sets, 0 leaves."""
        broker = self.broker(record.broker_id)
        self.changed_brokers[record.broker_id] = replace(
            broker,
            fenced=broker.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=broker.in_controlled_shutdown
            or record.in_controlled_shutdown > 0,
            directories=tuple(record.log_dirs) or broker.directories,
            cordoned_directories=broker.cordoned_directories
            if record.cordoned_log_dirs is None
            else tuple(record.cordoned_log_dirs),
        )

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = ControllerRegistration(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            listeners=_endpoints(record.end_points),
            features=_features(record.features),
            zk_migration_ready=record.zk_migration_ready,
        )

    def finish_snapshot(self) -> None:
        for broker_id, broker in self.image.brokers.items():
            if self.changed_brokers.setdefault(broker_id, None) == broker:
                del self.changed_brokers[broker_id]
        for controller_id, controller in self.image.controllers.items():
            if self.changed_controllers.setdefault(controller_id, None) == controller:
                del self.changed_controllers[controller_id]

    def broker(self, broker_id: int) -> BrokerRegistration:
        """The broker as it stands now; KeyError when it is not registered."""
        if broker_id not in self.changed_brokers:
            return self.image.brokers[broker_id]
        if (broker := self.changed_brokers[broker_id]) is None:
            raise KeyError(broker_id)
        return broker

    def __bool__(self) -> bool:
        return bool(self.changed_brokers or self.changed_controllers)

    def apply(self) -> ClusterImage:
        if not self:
            return self.image
        brokers, controllers = self.image.brokers.mutate(), self.image.controllers.mutate()
        for broker_id, broker in self.changed_brokers.items():
            if broker is None:
                brokers.pop(broker_id, None)
            else:
                brokers[broker_id] = broker
        for controller_id, controller in self.changed_controllers.items():
            if controller is None:
                controllers.pop(controller_id, None)
            else:
                controllers[controller_id] = controller
        return ClusterImage(brokers.finish(), controllers.finish())


def _endpoints(endpoints: Iterable[BrokerEndpoint | ControllerEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in endpoints)


def _features(features: Iterable[BrokerFeature | ControllerFeature]) -> tuple[FeatureRange, ...]:
    return tuple(
        FeatureRange(f.name, f.min_supported_version, f.max_supported_version) for f in features
    )
