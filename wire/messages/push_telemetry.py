"""PushTelemetry (72): a client pushes its metrics (KIP-714)."""

from trimaran.wire.codec.declarations import boolean, data, int8, int16, int32, uuid
from trimaran.wire.schema import Message, request, response


@request(key=72, versions="0", flexible="0+")
class PushTelemetryRequest(Message):
    client_instance_id: uuid
    subscription_id: int32
    terminating: boolean
    compression_type: int8
    metrics: data


@response(key=72, versions="0", flexible="0+")
class PushTelemetryResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
