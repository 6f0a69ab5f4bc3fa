"""Clients of Apache Kafka 4.4 and librdkafka push their metrics to our brokers (KIP-714); a scrape returns them."""

import json
import subprocess
import urllib.request

import pytest
from confluent_kafka import libversion

from tests.cluster.processes import LocalCluster, until
from tests.interop import apache_kafka
from tests.librdkafka import Consumer, Producer

INTERVAL_MS = 500
RECORDS = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    data = tmp_path_factory.mktemp("telemetry") / "data"
    with LocalCluster(data, "--metrics", "--brokers", "1", "--controllers", "1") as running:
        server = ("--bootstrap-server", running.bootstrap)
        wanted = ("--metrics", "*", "--interval", str(INTERVAL_MS))
        apache_kafka.tool("client-metrics", *server, "--alter", "--name", "all", *wanted)
        running.run("topics", "create", "t", "-p", 1, "-r", 1)
        running.wait_for_topic("t")
        yield running


def samples(cluster):
    """Returns (name, labels as text, value) of the metrics that clients have pushed."""
    (broker,) = [node for node in cluster.state.nodes if node.role == "broker"]
    with urllib.request.urlopen(f"http://{broker.metrics}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    found = []
    for line in lines:
        if line.startswith("kafka_clients_"):
            name, _, rest = line.partition("{")
            labels, _, value = rest.rpartition("} ")
            found.append((name, labels, float(value)))
    return found


def of(cluster, client_id, name):
    """Returns the values of a client's metric."""
    mine = f'client_id="{client_id}"'
    return [value for found, labels, value in samples(cluster) if found == name and mine in labels]


@pytest.mark.client("Java", "metrics", version=apache_kafka.VERSION)
def test_java_producer_pushes_metrics(cluster):
    """The metrics are checked while the producer is running, because it skips its last push if nothing is in flight
    (Kafka's Sender.run).
    """
    server = ("--bootstrap-server", cluster.bootstrap, "--topic", "t")
    tool = apache_kafka.TOOLS["console-producer"]
    command = apache_kafka.java(tool, *server, "--command-property", "client.id=java-shop")
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as producer:
        try:
            producer.stdin.write("record\n" * RECORDS)
            producer.stdin.flush()
            name = "kafka_clients_producer_record_send_total"
            until(lambda: of(cluster, "java-shop", name) == [RECORDS], "a push with all", 90)
            assert of(cluster, "java-shop", name.replace("record", "topic_record")) == [RECORDS]
            labels = next(labels for _, labels, _ in samples(cluster) if "java-shop" in labels)
            assert 'client_software_name="apache-kafka-java"' in labels
            assert f'client_software_version="{apache_kafka.VERSION}"' in labels
        finally:
            producer.terminate()


@pytest.mark.client("librdkafka", "metrics", version=libversion()[0])
def test_librdkafka_clients_push_metrics(cluster):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "c-shop"})
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "client.id": "c-reader", "group.id": "g"}
    )
    consumer.subscribe(["t"])

    def pushed():
        producer.produce("t", b"x")
        producer.poll(0)
        consumer.poll(0.1)
        names = {name for name, labels, _ in samples(cluster) if 'client_id="c-' in labels}
        wanted = ("producer_connection_creation_total", "consumer_connection_creation_total")
        return {f"kafka_clients_{item}" for item in wanted} <= names

    until(pushed, "both have pushed", seconds=60)
    producer.flush(10)
    consumer.close()
    name = "kafka_clients_producer_node_request_latency_avg"
    assert of(cluster, "c-shop", name)


def test_pushing_clients_are_counted_and_accepted(cluster):
    lines = cluster.run("metrics", "--only", "client_metrics", "-o", "json").stdout.splitlines()
    found = {row["metric"]: row["broker-11"] for row in map(json.loads, lines)}
    assert found["kafka_server_client_metrics_plugin_export_total"] > 2
    assert found["kafka_server_client_metrics_plugin_error_total"] == 0
    assert found["trimaran_client_metrics_dropped_total"] == 0
