"""A client requests its subscription and pushes metrics, which the metrics listener exposes."""

from tests.broker.handlers.telemetry import collecting, push, subscription
from tests.broker.telemetry.pushes import pushed
from trimaran.log.codecs.compression import Compression, compress
from trimaran.metrics.clients import client_metrics
from trimaran.metrics.serving import text_of
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest


def text(one):
    families = client_metrics(one.broker.contexts.administration.client_metrics)
    return text_of([each for each in families if each is not None], "").body.decode()


async def test_pushed_metrics_are_scraped(tmp_path):
    async with collecting(tmp_path) as one:
        told = await subscription(one)
        assert told.error_code == 0
        assert (told.requested_metrics, told.push_interval_ms) == (["*"], 60_000)
        assert told.accepted_compression_types == [4, 3, 1, 2]
        assert (told.telemetry_max_bytes, told.delta_temporality) == (1 << 20, True)
        data = pushed(
            gauges=[("org.apache.kafka.producer.node.request.latency.avg", 1.5, {"node.id": "1"})],
            sums=[
                ("org.apache.kafka.producer.record.send.total", 3, {}),
                ("kafka_server_brokertopicmetrics_bytesin", 4, {}),
            ],
            resource={"client_id": "somebody else"},
        )
        assert await push(one, told, compress(Compression.ZSTD, data), Compression.ZSTD) == 0
        lines = text(one).splitlines()
        name = uuid_to_text(told.client_instance_id)
        (latency,) = [line for line in lines if line.endswith(" 1.5")]
        assert latency.startswith("kafka_clients_producer_node_request_latency_avg{")
        assert 'node_id="1"' in latency
        assert f'client_instance_id="{name}"' in latency
        assert "somebody else" not in latency
        assert any(
            line.startswith("kafka_clients_producer_record_send_total{") and line.endswith(" 3.0")
            for line in lines
        )
        assert any(line.startswith("kafka_clients_kafka_server_") for line in lines)
        assert "kafka_server_client_metrics_plugin_export_total 1.0" in lines
        assert "kafka_server_client_metrics_instance_count 1.0" in lines


async def test_refused_push_leaves_the_connection_open(tmp_path):
    """mA12."""
    async with collecting(tmp_path, telemetry_max_bytes="1000") as one:
        told = await subscription(one)
        again = GetTelemetrySubscriptionsRequest(client_instance_id=told.client_instance_id)
        early = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert (await one.call(again)).error_code == early
        assert await push(one, told, b"", subscription_id=1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        last = {"terminating": True}
        for metrics, kind, code in (
            (b"\xff" * 9, Compression.NONE, ErrorCode.INVALID_RECORD),
            (compress(Compression.GZIP, bytes(9000)), Compression.GZIP, ErrorCode.INVALID_RECORD),
            (bytes(1001), Compression.NONE, ErrorCode.TELEMETRY_TOO_LARGE),
            (b"", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ):
            told = await subscription(one)
            assert await push(one, told, metrics, kind, **last) == code
        assert await push(one, told, b"") == ErrorCode.INVALID_REQUEST
