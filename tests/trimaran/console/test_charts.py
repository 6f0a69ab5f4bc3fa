"""Charts of the nodes' metrics."""

import itertools
import math
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.trimaran.console.conftest import console_before
from trimaran.console.cluster import ConsoleCluster
from trimaran.console.lines import chart, path_of, round_up, summed, worst
from trimaran.console.samples import SERIES, SamplePoint, Samples, values_of
from trimaran.errors.user_error import UserError
from trimaran.node.runtime.clock import now_ms

BYTES_IN = SERIES[0]
TEXT = """# HELP kafka_server_brokertopicmetrics_bytesin_total Bytes.
# TYPE kafka_server_brokertopicmetrics_bytesin counter
kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 5.0
kafka_server_brokertopicmetrics_bytesin_total 7.0
kafka_network_requestmetrics_totaltimems{quantile="0.99",request="Produce"} 2.5
kafka_network_requestmetrics_totaltimems{quantile="0.99",request="Fetch"} 500.0
kafka_server_raftmetrics_commit_latency_avg NaN
trimaran_trio_loop_lag_seconds{quantile="0.99"} 0.004
something_else 1.0
"""


def test_charted_values_are_found_in_metrics():
    assert values_of(TEXT) == {"bytes-in": 7.0, "produce-time": 2.5, "loop-lag": 4.0}


def points(name, *values):
    return {name: [SamplePoint(1000 * at, value) for at, value in enumerate(values)]}


@pytest.fixture
def samples(monkeypatch):
    """Samples the given totals, one per second; a node without a number does not respond."""
    texts, now = {}, [0]

    def text_of(address, timeout, names):
        assert BYTES_IN.metric in names
        if texts[address] is None:
            raise UserError("away", "", "")
        return f"{BYTES_IN.metric} {texts[address]}\n"

    monkeypatch.setattr("trimaran.console.samples.text_of", text_of)
    monkeypatch.setattr("trimaran.console.samples.now_ms", lambda: now[0])
    found = Samples(lambda: {"a": "a", "b": "b"})

    def take(a, b):
        texts.update(a=a, b=b)
        now[0] += 1000
        found.take()

    found.take_next = take
    return found


def test_totals_become_rates_unknown_values_gaps(samples):
    for a, b in ((10, 1), (30, None), (5, 3), (6, 4)):
        samples.take_next(a, b)
    found = samples.of(BYTES_IN)
    assert [point.value for point in found["a"]] == [20.0, None, 1.0]
    assert [point.value for point in found["b"]] == [None, 1.0]
    assert [point.value for point in summed(found)] == [20.0, None, 2.0]
    assert list(samples.of(BYTES_IN, since_ms=4000)) == ["a", "b"]
    assert samples.of(SERIES[3]) == {}


def test_worst_value_of_all_nodes_is_drawn():
    both = points("a", 1.0, None, 3.0) | points("b", 2.0, None, None)
    assert [point.value for point in worst(both)] == [2.0, None, 3.0]


def test_unknown_value_is_a_gap_in_line():
    made = chart("Bytes", "bytes/s", points("a", 0.0, 5.0, None, 10.0))
    assert made.top == 10.0
    assert path_of(made.lines[0], made) == "M0.0 100.0L333.3 50.0M1000.0 0.0"
    assert chart("Bytes", "bytes/s", points("a", 1.0)) is None
    assert chart("Bytes", "bytes/s", {}) is None


@pytest.mark.parametrize(
    ("value", "unit", "top"),
    [
        *((0, "ms", 1), (0.3, "ms", 0.5), (1, "ms", 1), (1.2, "ms", 2), (1000, "ms", 1000)),
        *((2001, "1/s", 5000), (2001, "bytes/s", 2048), (9e8, "bytes/s", 1000 * 2**20)),
    ],
)
def test_axis_ends_at_a_round_number(value, unit, top):
    assert math.isclose(round_up(value, unit), top)


class Exporter(BaseHTTPRequestHandler):
    """Returns larger numbers each time."""

    told = 0

    def do_GET(self):
        type(self).told += 1000
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{BYTES_IN.metric} {self.told}\n".encode())

    def log_message(self, *words):
        """Logs nothing."""


def test_metrics_of_node_are_drawn(kafka, monkeypatch):
    seconds = itertools.count(now_ms() - 10_000, 1000)
    monkeypatch.setattr("trimaran.console.samples.now_ms", lambda: next(seconds))
    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as exporter:
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{exporter.server_address[1]}"
        cluster = ConsoleCluster(
            kafka.bootstrap, metrics=lambda: {"node": address, "away": "127.0.0.1:1"}
        )
        for _ in range(3):
            cluster.samples.take()
        with console_before(cluster) as browser:
            (found,) = browser.json("/charts")["charts"]
            assert (found["title"], [line["name"] for line in found["lines"]]) == (
                "Bytes in",
                ["node"],
            )
            page = browser.get("/charts").body
            assert re.search(r'<path class="line c0" d="M0\.0 [\d.]+L', page)
            assert "No metrics from away at the last attempt." in page
            assert 'class="spark"' in browser.get("/").body
        exporter.shutdown()


def test_missing_addresses_name_the_option(browser):
    assert browser.json("/charts")["charts"] == []
    assert "--metrics HOST:PORT" in browser.get("/charts").body
