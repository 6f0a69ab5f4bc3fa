"""Deliveries of a share group, from the metrics of brokers."""

import http.server
import threading

import pytest

from trimaran.client.share_deliveries import Deliveries, deliveries
from trimaran.wire.identity import TopicPartition

TEXT = """# TYPE kafka_server_sharepartitionmetrics_inflightmessagecount gauge
kafka_server_sharepartitionmetrics_inflightmessagecount{group="g",topic="t",partition="0"} 10.0
kafka_server_sharepartitionmetrics_inflightmessagecount{group="g",topic="t",partition="1"} 0.0
kafka_server_sharepartitionmetrics_inflightmessagecount{group="h",topic="t",partition="0"} 7.0
# TYPE kafka_server_sharepartitionmetrics_acquisitionlocktimeout counter
kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total{group="g",topic="t",partition="0"} 3.0
"""


class Node(http.server.BaseHTTPRequestHandler):
    """Serves `TEXT`."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(TEXT.encode())

    def log_message(self, *_given):
        """Prints nothing."""


@pytest.fixture
def node():
    server = http.server.HTTPServer(("127.0.0.1", 0), Node)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_deliveries_are_those_of_the_group(node):
    found = deliveries({"broker-1": node}, "g", 5)
    assert found == {
        TopicPartition("t", 0): Deliveries(10, 3),
        TopicPartition("t", 1): Deliveries(0, 0),
    }


def test_silent_nodes_are_left_out(node):
    found = deliveries({"silent": "127.0.0.1:1", "broker-1": node}, "h", 5)
    assert found == {TopicPartition("t", 0): Deliveries(7, 0)}
