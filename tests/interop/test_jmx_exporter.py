"""Metrics of Apache Kafka from the JMX exporter with our rules: charts of the console, and `trimaran metrics`."""

import re
import socket
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from tests.cluster.processes import until
from tests.interop import apache_kafka, maven
from tests.interop.conftest import trimaran
from tests.librdkafka import AdminClient, Consumer, Producer
from tests.trimaran import group_members
from tests.trimaran.console.conftest import console_before
from trimaran.client.share_consumer import ShareConsumer
from trimaran.console import samples
from trimaran.console.cluster import ConsoleCluster
from trimaran.wire.blocking import BlockingClient

VERSION = "1.0.1"
SECONDS = 240.0  # the time of three responses, each of a JVM that has just started
# One metric of each kind of rule, from Strimzi's dashboards and our alerts.
NAMES = (
    'kafka_server_raftmetrics_current_state{current_state="leader"',
    "kafka_server_raftmetrics_high_watermark",
    "kafka_server_brokermetadatametrics_last_applied_record_offset",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_server_replicamanager_underreplicatedpartitions",
    'kafka_server_brokertopicmetrics_bytesin_total{topic="t"',
    'kafka_network_requestmetrics_requests_total{request="Produce"',
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    'kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"',
    'kafka_log_log_size{partition="0",topic="t"',
)
DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("share_groups.md", "streams_groups.md")
DEAD_LETTERS = "errors.deadletterqueue.group.enable=true"
# Apache Kafka registers it when a queue cannot be written for the first time.
AT_FIRST_FAILURE = "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total"
CHARTS = {"Bytes in", "Bytes out", "Messages in", "Produce latency, p99", "Metadata commit latency"}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Starts a Kafka with the exporter; yields it, and the exporter's address."""
    directory = tmp_path_factory.mktemp("jmx")
    rules = directory / "rules.yml"
    rules.write_text(trimaran("generate", "jmx-exporter").stdout)
    artifact = f"io.prometheus.jmx:jmx_prometheus_javaagent:{VERSION}"
    (jar,) = maven.libraries(f"jmx-exporter-{VERSION}", [artifact]).glob("*javaagent*.jar")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    kafka = apache_kafka.plan(directory, controllers=0, brokers=1)
    kafka.jvm = (f"-javaagent:{jar}={address}:{rules}",)
    kafka.format()
    kafka.start()
    try:
        kafka.wait_ready()
        yield kafka, address
    finally:
        kafka.stop()


def work(bootstrap):
    """Produces data for every chart."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(100):
        producer.produce("t", f"{number}")
    assert producer.flush(30) == 0
    settings = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe(["t"])
    assert consumer.consume(10, timeout=60)
    consumer.close()


def test_rules_give_kafkas_metrics_our_names(watched, monkeypatch):
    kafka, address = watched
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result()
    work(kafka.bootstrap)
    # A node that takes two seconds to respond is scraped every forty seconds.
    monkeypatch.setattr(samples, "PAUSE_PER_SECOND", 1.0)
    cluster = ConsoleCluster(
        kafka.bootstrap, kafka.controller_bootstrap, metrics=lambda: {"broker-1": address}
    )

    def titles():
        work(kafka.bootstrap)
        return {chart["title"] for chart in browser.json("/charts")["charts"]}

    with console_before(cluster) as browser:
        until(lambda: titles() >= CHARTS, "the charts have lines", SECONDS)
        assert browser.json("/")["sparks"], "the overview draws them, too"
    rows = trimaran("metrics", "-a", address, "-o", "json").stdout
    assert "kafka_server_replicamanager_underreplicatedpartitions" in rows


def test_every_kind_of_rule_has_data(watched):
    _, address = watched
    lines = told(address)
    assert [name for name in NAMES if not any(line.startswith(name) for line in lines)] == []


def test_metrics_of_share_and_streams_pages_are_there(watched, monkeypatch):
    """Every metric that the pages name, after records were accepted, rejected and read by an application."""
    kafka, address = watched
    server = ("-b", kafka.bootstrap)
    trimaran("topics", "create", "s", "-p", "1", *server)
    trimaran("topics", "create", "dlq.s", "--config", DEAD_LETTERS, *server)
    trimaran("produce", "s", *server, stdin="a\nb\nc\n")
    changes = ("share.auto.offset.reset=earliest", "errors.deadletterqueue.topic.name=dlq.s")
    trimaran("configs", "set", "group/sharers", *changes, *server)
    trimaran("consume", "s", "-g", "sharers", "-n", "1", "--reject", *server)
    monkeypatch.setattr(group_members, "TOPIC", "s")
    with BlockingClient(kafka.bootstrap) as client:
        group_members.join(client, "streams", "streamers")
        with ShareConsumer(client, "sharers", "s") as consumer:
            next(consumer.records())
            lines = told(address)
    named = {
        name
        for page in PAGES
        for name in re.findall(r"`(kafka_server_\w+)`", (DOCS / page).read_text())
    }
    assert len(named) > 8
    assert named - {line.split("{")[0].split(" ")[0] for line in lines} == {AT_FIRST_FAILURE}


def told(address):
    return (
        urllib.request.urlopen(f"http://{address}/metrics", timeout=60).read().decode().split("\n")
    )
