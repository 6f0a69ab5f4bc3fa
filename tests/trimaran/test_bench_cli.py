"""`bench produce|consume` against a node: their report matches what they did."""

import json

import pytest

from trimaran.cli import bench as command
from trimaran.cli.connect import Brokers
from trimaran.client import bench
from trimaran.client.bench import Latencies, Load
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.codecs.compression import Compression
from trimaran.testing import EmbeddedKafka


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka() as kafka:
        kafka.create_topic("perf", partitions=3)
        yield kafka


@pytest.fixture
def printed_json(capsys):
    return lambda: json.loads(capsys.readouterr().out)


def test_produced_records_are_read_back(kafka, printed_json):
    brokers = Brokers(bootstrap=kafka.bootstrap)
    options = {"records": 1003, "size": 50, "batch_bytes": 6200, "clients": 4, "output": "json"}
    assert command.produce("perf", compression="lz4", brokers=brokers, **options) == Exit.OK
    said = printed_json()
    assert (said["records"], said["bytes"], said["clients"]) == (1003, 50_150, 4)
    assert said["requests"] == 12  # four clients with some 250 records, a hundred a batch
    assert 0 < said["latency_ms"]["p50"] <= said["latency_ms"]["p99"] <= said["latency_ms"]["max"]
    found = kafka.records("perf")
    assert len(found) == 1003
    assert {partition.partition for partition in found} == {0, 1, 2}
    assert {len(record.value) for record in found} == {50}
    assert command.consume("perf", brokers=brokers, output="json") == Exit.OK
    said = printed_json()
    assert (said["records"], said["clients"]) == (1003, 3)
    assert command.consume("perf", records=10, clients=1, brokers=brokers, output="json") == Exit.OK
    assert 10 <= printed_json()["records"] < 1003


def test_empty_topic_has_nothing_to_measure(kafka):
    kafka.create_topic("empty")
    with pytest.raises(UserError, match="is empty"):
        command.consume("empty", brokers=Brokers(bootstrap=kafka.bootstrap))


def test_failing_client_ends_all_clients(kafka):
    kafka.create_topic("small", configs={"max.message.bytes": "100"})
    with pytest.raises(UserError) as failed:
        command.produce("small", size=500, brokers=Brokers(bootstrap=kafka.bootstrap))
    assert failed.value.exit_code is Exit.REFUSED


def test_rate_determines_when_requests_are_due(monkeypatch):
    """If a cluster stalls, all requests that were due meanwhile count as late."""
    now = [0.0]
    load = Load()
    monkeypatch.setattr(bench.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(load, "pause_until", lambda due: now.__setitem__(0, max(now[0], due)))
    answers = iter([3.0, 0.0, 0.0, 0.0])
    monkeypatch.setattr(bench, "_send", lambda *_: now.__setitem__(0, now[0] + next(answers)))
    producing = bench.Producing("t", 1, 10, -1, Compression.NONE, 1000)
    bench.produce(producing, Brokerless, [0], 40, 10.0)(load)
    assert load.figures()["latency_ms"]["max"] == 3000
    assert sorted(load.recent().counts) == [0.0, 1.0, 2.0, 3.0]


class Brokerless:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        pass


def test_percentiles_are_of_the_whole_run():
    latencies = Latencies()
    assert set(latencies.as_ms().values()) == {0.0}
    for number in range(1, 1001):
        latencies.add(number / 1000)
    found = latencies.as_ms()
    assert {key: round(value) for key, value in found.items()} == {
        "mean": 500,
        "p50": 500,
        "p95": 950,
        "p99": 990,
        "p99.9": 999,
        "max": 1000,
    }


def test_memory_of_latencies_is_bounded():
    latencies = Latencies()
    for number in range(100_000):
        latencies.add(number * 1.234567e-6)
    assert len(latencies.counts) < 6 * 900
