"""The metrics of real nodes, as a scraper sees them: names, values, readiness."""

import gzip
import re
import urllib.error
import urllib.request

import pytest
import trio
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.in_process import cluster
from tests.cluster.nodes import server_config
from tests.librdkafka import Consumer, Producer
from trimaran.metrics.alerts import ALERTS
from trimaran.metrics.dashboard import PANELS
from trimaran.metrics.http import CONNECTIONS_MAX, HttpRequest
from trimaran.metrics.node_monitor import NodeMonitor
from trimaran.metrics.registry import SUBJECTS
from trimaran.metrics.serving import SCRAPES_MAX, address_of, serving_metrics
from trimaran.node.config.config_def import ConfigError


def _get(address, path, **headers):
    host, port = address
    request = urllib.request.Request(
        f"http://{host}:{port}{path}", headers={k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


async def get(server, path="/metrics", **headers):
    return await trio.to_thread.run_sync(lambda: _get(server.address, path, **headers))


def samples(text):
    """Returns samples by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _produce_and_consume(bootstrap, topic, count):
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"v%d" % number)
    assert producer.flush(20) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(count, timeout=30)) == count
    consumer.commit(asynchronous=False)
    consumer.close()


def _grouping_cluster(path):
    return cluster(
        path,
        group_initial_rebalance_delay_ms=0,
        offsets_topic_replication_factor=1,
        offsets_topic_num_partitions=1,
    )


async def test_node_exposes_every_queried_metric(tmp_path):
    async with _grouping_cluster(tmp_path) as running:
        state = NodeMonitor(running.config(11, **{"process.roles": "broker"}))
        state.started(running.brokers[11])
        other = NodeMonitor(running.controller_config(1))
        other.started(running.controllers[1])
        async with (
            serving_metrics(("127.0.0.1", 0), state) as broker,
            serving_metrics(("127.0.0.1", 0), other) as controller,
        ):
            assert (await get(broker, "/readyz"))[::2] == (200, b"ready\n")
            assert (await get(controller, "/readyz"))[::2] == (200, b"ready\n")
            await trio.to_thread.run_sync(_produce_and_consume, running.bootstrap, "t", 7)
            _, headers, text = await get(broker)
            assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = samples(text.decode())
            expected = {
                ("kafka_server_brokertopicmetrics_messagesin_total", (("topic", "t"),)): 7,
                ("kafka_server_replicamanager_underreplicatedpartitions", ()): 0,
                ("kafka_log_log_logendoffset", (("partition", "0"), ("topic", "t"))): 7,
                ("kafka_server_groupmetadatamanager_numoffsets", ()): 1,
                ("kafka_server_raftmetrics_current_leader", ()): 1,
                ("kafka_server_raftmetrics_current_state", (("current_state", "observer"),)): 1,
            }
            assert {key: found.get(key) for key in expected} == expected
            sent = ("kafka_server_brokertopicmetrics_bytesout_total", (("topic", "t"),))
            assert found[sent] == found["kafka_log_log_size", (("partition", "0"), ("topic", "t"))]
            names = {name for name, _ in found}
            _, _, text = await get(controller)
            found = samples(text.decode())
            expected = {
                ("kafka_controller_kafkacontroller_activecontrollercount", ()): 1,
                ("kafka_controller_kafkacontroller_activebrokercount", ()): 1,
                ("kafka_controller_kafkacontroller_globaltopiccount", ()): 2,
                ("kafka_controller_kafkacontroller_offlinepartitionscount", ()): 0,
                ("kafka_server_raftmetrics_current_state", (("current_state", "leader"),)): 1,
            }
            assert {key: found.get(key) for key in expected} == expected
            names |= {name for name, _ in found}
    assert _names_in_queries() - names == set()
    assert _names_not_in_tables(names) == set()


def _names_not_in_tables(names):
    """Returns undeclared metrics (docs/metric_names.md), except those of Prometheus' client and those that clients
    push.
    """
    declared = {line.name for tables in SUBJECTS.values() for table in tables for line in table}
    ends = ("_total", "_count", "_sum", "_bucket")
    undeclared = {name for name in names if name not in declared}
    found = {name for name in undeclared if not any(name.removesuffix(e) in declared for e in ends)}
    return {name for name in found if not name.startswith(("process_", "kafka_clients_"))}


def _names_in_queries():
    """Returns the names in queries of alerts and of the dashboard, which must exist."""
    queries = [alert.expression for alert in ALERTS]
    queries += [query for panel in PANELS for query, _ in panel.queries]
    found = set(re.findall(r"\b(?:kafka|trimaran|process)_\w+", " ".join(queries)))
    # Those of a mirror: tests/zkcompat/mirroring/test_mirror_metrics.py.
    return {name for name in found if not name.startswith("trimaran_zk_mirror_")}


async def test_scraper_gets_its_requested_format(tmp_path):
    async with cluster(tmp_path) as running:
        state = NodeMonitor(running.config(11, **{"process.roles": "broker"}))
        state.started(running.brokers[11])
        async with serving_metrics(("127.0.0.1", 0), state) as server:
            accept = "application/openmetrics-text; version=1.0.0"
            _, headers, body = await get(server, Accept=accept, Accept_Encoding="gzip")
            assert headers["Content-Encoding"] == "gzip"
            assert headers["Content-Type"].startswith("application/openmetrics-text")
            text = gzip.decompress(body).decode()
            assert text.endswith("# EOF\n")
            names = {family.name for family in parse_openmetrics(text)}
            assert "trimaran_fsync_seconds" in names
            assert (await get(server, "/"))[0] == 404
            one = (await get(server, "/metrics?name[]=trimaran_fsync_seconds_count"))[2].decode()
            assert set(re.findall("^[a-z]+_[a-z]+_[a-z]+", one, re.MULTILINE)) == {
                "trimaran_fsync_seconds"
            }


def starting(tmp_path):
    """Returns the monitor of a node whose roles have not started."""
    config = server_config(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "log.dirs": str(tmp_path),
        }
    )
    return NodeMonitor(config)


async def test_starting_node_is_alive_but_not_ready(tmp_path):
    async with serving_metrics(("127.0.0.1", 0), starting(tmp_path)) as server:
        assert (await get(server, "/healthz"))[0] == 200
        status, _, text = await get(server, "/readyz")
        assert (status, text) == (503, b"the controller is starting\nthe broker is starting\n")
        found = samples((await get(server))[2].decode())
        assert ("trimaran_trio_tasks", ()) in found


async def test_waiting_scrapes_keep_no_probe_out(tmp_path):
    """A supervisor whose probe gets no response restarts the node."""
    statuses = []
    async with (
        serving_metrics(("127.0.0.1", 0), starting(tmp_path)) as server,
        trio.open_nursery() as nursery,
    ):

        async def scrape():
            statuses.append((await get(server))[0])

        async with server._scraping:
            for number in range(CONNECTIONS_MAX):
                nursery.start_soon(scrape)
                while server._scrapes + len(statuses) <= number:
                    await trio.lowlevel.checkpoint()
            assert statuses == [503] * (CONNECTIONS_MAX - SCRAPES_MAX)
            for path, status in (("/healthz", 200), ("/readyz", 503)):
                assert (await get(server, path))[0] == status
    assert statuses.count(200) == SCRAPES_MAX
    assert server._scrapes == 0


async def test_scrapes_that_end_early_leave_their_places(tmp_path, monkeypatch):
    scrape = HttpRequest("/metrics", {}, "")
    async with serving_metrics(("127.0.0.1", 0), starting(tmp_path)) as server:
        async with server._scraping:
            for _ in range(SCRAPES_MAX):
                with trio.CancelScope() as late:
                    late.cancel()
                    await server.respond(scrape)
                assert late.cancelled_caught
        with monkeypatch.context() as failing:
            failing.setattr(server._monitor, "families", lambda: 1 / 0)
            for _ in range(SCRAPES_MAX):
                with pytest.raises(ZeroDivisionError):
                    await server.respond(scrape)
        assert (await get(server))[0] == 200


async def test_fenced_broker_is_not_ready(tmp_path):
    async with cluster(tmp_path) as running:
        state = NodeMonitor(running.config(11, **{"process.roles": "broker"}))
        state.started(running.brokers[11])
        await running.stop(11)
        assert state.why_not_ready()


@pytest.mark.parametrize("text", ["nowhere", "127.0.0.1", "127.0.0.1:port", "http://a:1/x", ":9"])
def test_wrong_address_is_named(text):
    with pytest.raises(ConfigError, match=r"trimaran\.metrics\.listener"):
        address_of(text)


def test_no_address_is_nowhere():
    assert address_of(None) is None
    assert address_of("127.0.0.1:0") == ("127.0.0.1", 0)
