"""Metadata records of brokers and controllers: registration, fencing, unregistration (KIP-631, KIP-919)."""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32_broker_id,
    int32_node_id,
    int64_broker_epoch,
    string,
    uint16,
    uuid,
)
from trimaran.wire.schema import Message, record


class BrokerEndpoint(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16


class BrokerFeature(Struct):
    name: string
    min_supported_version: int16
    max_supported_version: int16


@record(key=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord(Message):
    broker_id: int32_broker_id
    is_migrating_zk_broker: boolean = field("2+", default=False)
    incarnation_id: uuid
    broker_epoch: int64_broker_epoch
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: string | None
    fenced: boolean = True
    in_controlled_shutdown: boolean = field("1+", default=False)
    log_dirs: list[uuid] = field("3+", factory=list, tag=0)
    cordoned_log_dirs: list[uuid] | None = field("4+", default=None, tag=1)


@record(key=1, versions="0", flexible="0+")
class UnregisterBrokerRecord(Message):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch


@record(key=7, versions="0", flexible="0+")
class FenceBrokerRecord(Message):
    id: int32_broker_id
    epoch: int64_broker_epoch


@record(key=8, versions="0", flexible="0+")
class UnfenceBrokerRecord(Message):
    id: int32_broker_id
    epoch: int64_broker_epoch


@record(key=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord(Message):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch
    fenced: int8 = field(default=0, tag=0)
    in_controlled_shutdown: int8 = field("1+", default=0, tag=1)
    log_dirs: list[uuid] = field("2+", factory=list, tag=2)
    cordoned_log_dirs: list[uuid] | None = field("3+", default=None, tag=3)


class ControllerEndpoint(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16


class ControllerFeature(Struct):
    name: string
    min_supported_version: int16
    max_supported_version: int16


@record(key=27, versions="0", flexible="0+")
class RegisterControllerRecord(Message):
    controller_id: int32_node_id
    incarnation_id: uuid
    zk_migration_ready: boolean
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


@record(key=29, versions="0", flexible="0+")
class UnregisterControllerRecord(Message):
    controller_id: int32_node_id
