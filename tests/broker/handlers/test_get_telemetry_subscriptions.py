"""GetTelemetrySubscriptions: the metrics that a client must push."""

from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.configs import METRICS, incremental
from tests.broker.handlers.telemetry import collecting, subscription
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest


async def test_client_learns_metrics_interval_and_format(tmp_path):
    async with collecting(tmp_path) as one:
        told = await subscription(one)
        assert told.error_code == 0
        assert told.client_instance_id != NIL_UUID
        assert (told.requested_metrics, told.push_interval_ms) == (["*"], 60_000)
        assert told.accepted_compression_types == [4, 3, 1, 2]
        assert (told.telemetry_max_bytes, told.delta_temporality) == (1 << 20, True)


async def test_early_request_needs_changed_subscriptions(tmp_path):
    async with collecting(tmp_path) as one:
        told = await subscription(one)
        again = GetTelemetrySubscriptionsRequest(client_instance_id=told.client_instance_id)
        assert (await one.call(again)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await one.call(incremental((METRICS, "all", {"metrics": "org.", "interval.ms": "100"})))
        await one.seen(lambda image: image.configs.of(METRICS, "all")["interval.ms"] == "100")
        changed = await one.call(again)
        assert (changed.requested_metrics, changed.push_interval_ms) == (["org."], 100)
        assert changed.subscription_id != told.subscription_id


async def test_telemetry_is_not_advertised_without_receiver(tmp_path):
    async with broker_client(tmp_path) as one:
        served = one.connection.negotiated
        assert GetTelemetrySubscriptionsRequest.KEY not in served.versions
