"""A broker that requests metrics from its clients, and a client that sends them."""

from contextlib import asynccontextmanager

from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.configs import METRICS, incremental
from trimaran.log.codecs.compression import Compression
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from trimaran.wire.messages.push_telemetry import PushTelemetryRequest

LISTENER = {"trimaran_metrics_listener": "127.0.0.1:0"}


@asynccontextmanager
async def collecting(path, **settings):
    async with broker_client(path, **LISTENER, **settings) as one:
        configs = {"metrics": "*", "interval.ms": "60000", "match": "client_source_address=127.*"}
        await one.call(incremental((METRICS, "all", configs)))
        await one.seen(lambda image: image.configs.of(METRICS, "all"))
        yield one


async def subscription(one):
    request = GetTelemetrySubscriptionsRequest(client_instance_id=NIL_UUID)
    return await one.call(request)


async def push(one, told, metrics, kind=Compression.NONE, **changed):
    fields = {"subscription_id": told.subscription_id, "terminating": False} | changed
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id, compression_type=kind, metrics=metrics, **fields
    )
    return (await one.call(request)).error_code
