"""GetTelemetrySubscriptions (71): a client requests the list of metrics to push (KIP-714)."""

from trimaran.wire.codec.declarations import boolean, int8, int16, int32, string, uuid
from trimaran.wire.schema import Message, request, response


@request(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: uuid


@response(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: uuid
    subscription_id: int32
    accepted_compression_types: list[int8]
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: boolean
    requested_metrics: list[string]
