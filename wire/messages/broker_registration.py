"""BrokerRegistration (62): a starting broker registers with the controller (KIP-631).

Versions: 1 migration from ZooKeeper (KIP-866); 2 log directories (KIP-858); 3 the epoch before a
clean shutdown (KIP-966); 4 features whose lowest version is 0 (KIP-1022).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int32,
    int32_broker_id,
    int64_broker_epoch,
    string,
    uint16,
    uuid,
)
from trimaran.wire.identity import BrokerEpoch
from trimaran.wire.schema import Message, request, response


class Listener(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16


class Feature(Struct):
    name: string
    min_supported_version: int16
    max_supported_version: int16


@request(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest(Message):
    broker_id: int32_broker_id
    cluster_id: string
    incarnation_id: uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: string | None
    is_migrating_zk_broker: boolean = field("1+", default=False)
    log_dirs: list[uuid] = field("2+", factory=list, ignorable=True)
    previous_broker_epoch: int64_broker_epoch = field("3+", default=-1, ignorable=True)


@response(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64_broker_epoch = BrokerEpoch(-1)
