"""PushTelemetry (72): a client pushes its metrics (KIP-714)."""

from __future__ import annotations

import logging
from functools import partial

from trimaran.broker.handlers.context import AdminContext
from trimaran.broker.telemetry.clients import collecting
from trimaran.broker.telemetry.otlp import points_of
from trimaran.node.runtime.threads import run_computing
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

log = logging.getLogger(__name__)


@handles(
    PushTelemetryRequest,
    versions="0",
    access=open_to_all("about the client itself; bounded by telemetry.max.bytes and its interval"),
)
def push_telemetry(
    request: PushTelemetryRequest, ctx: AdminContext, call: Call
) -> Handling[PushTelemetryResponse]:
    metrics, received = collecting(ctx.client_metrics)
    client = metrics.pushed(
        request.client_instance_id,
        call,
        subscription_id=request.subscription_id,
        terminating=request.terminating,
        compression=request.compression_type,
        size=len(request.metrics),
    )
    if request.metrics:
        data = bytes(request.metrics)
        try:
            points = yield Blocking(
                partial(
                    run_computing,
                    points_of,
                    data,
                    request.compression_type,
                    metrics.bytes_max,
                    whom=call.connection.id,
                )
            )
        except (RemoteProtocolError, MemoryError) as error:
            client.last_error = ErrorCode.INVALID_RECORD
            metrics.counts.refused += 1
            log.debug("metrics of %s are not taken: %a", call.connection, str(error))
            raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
        metrics.counts.exported += 1
        received.take(client.instance_id, client.labels, points, client.kept_ms)
    return PushTelemetryResponse()
