"""GetTelemetrySubscriptions (71): returns the metrics that a client should push (KIP-714)."""

from __future__ import annotations

from trimaran.broker.handlers.context import AdminContext
from trimaran.broker.telemetry.clients import collecting
from trimaran.log.codecs.compression import Compression
from trimaran.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles

# In Kafka's order: clients use the first type that they support.
COMPRESSIONS = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


@handles(
    GetTelemetrySubscriptionsRequest,
    versions="0",
    access=open_to_all("about the client's own metrics"),
)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, ctx: AdminContext, call: Call
) -> GetTelemetrySubscriptionsResponse:
    metrics, _ = collecting(ctx.client_metrics)
    client = metrics.asked(request.client_instance_id, call)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client.instance_id,
        subscription_id=client.subscription_id,
        accepted_compression_types=list(COMPRESSIONS),
        push_interval_ms=client.wanted.interval_ms,
        telemetry_max_bytes=metrics.bytes_max,
        delta_temporality=True,
        requested_metrics=list(client.wanted.metrics),
    )
