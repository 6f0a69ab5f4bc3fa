"""ControllerRegistration (70): a controller registers its endpoints and features (KIP-919)."""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    int16,
    int32,
    int32_node_id,
    string,
    uint16,
    uuid,
)
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


@request(key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest(Message):
    controller_id: int32_node_id
    incarnation_id: uuid
    zk_migration_ready: boolean
    listeners: list[Listener]
    features: list[Feature]


@response(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
