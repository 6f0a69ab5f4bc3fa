"""The pushed metrics that are kept, and the time for which they are kept."""

import pytest

from trimaran.broker.telemetry import received
from trimaran.broker.telemetry.otlp import Point
from trimaran.broker.telemetry.received import ReceivedMetrics

LABELS = {"client_id": "shop"}


@pytest.fixture
def now():
    return [0]


@pytest.fixture
def metrics(now):
    return ReceivedMetrics(lambda: now[0])


def values(metrics):
    return [
        {key: series.value for key, series in client.series.items()} for client in metrics.clients()
    ]


def test_deltas_accumulate_others_keep_newest_value(metrics):
    for number in (1, 2, 3):
        points = [
            Point("delta", (), number, True, True),
            Point("cumulative", (), number, True, False),
            Point("gauge", (("topic", "t"),), number, False, False),
        ]
        metrics.take(b"1", LABELS, points, 1000)
    assert values(metrics) == [
        {
            ("delta", (), True): 6,
            ("cumulative", (), True): 3,
            ("gauge", (("topic", "t"),), False): 3,
        }
    ]


def test_silent_client_is_forgotten(metrics, now):
    metrics.take(b"1", LABELS, [Point("a", (), 1, False, False)], 1000)
    now[0] = 999
    assert len(values(metrics)) == 1
    now[0] = 1000
    assert values(metrics) == []


def of_partition(number):
    return Point("lag", (("partition", f"{number}"),), number, False, False)


def test_series_that_are_no_longer_pushed_expire(metrics, now):
    """A consumer gets other partitions, and continues to push."""
    metrics.take(b"1", LABELS, [of_partition(0), of_partition(1)], 1000)
    now[0] = 500
    metrics.take(b"1", LABELS, [of_partition(0), of_partition(2)], 1000)
    now[0] = 999
    assert sorted(values(metrics)[0].values()) == [0, 1, 2]
    now[0] = 1000
    assert sorted(values(metrics)[0].values()) == [0, 2]
    now[0] = 1499
    metrics.take(b"1", LABELS, [], 1000)
    now[0] = 1500
    assert values(metrics) == [{}]


def test_room_of_expired_series_is_reused(metrics, now, monkeypatch):
    monkeypatch.setattr(received, "CLIENT_BYTES_MAX", 2000)
    monkeypatch.setattr(received, "BYTES_MAX", 4000)
    for number in range(100):
        metrics.take(b"1", LABELS, [of_partition(number)], 3000)
        if number % 7 == 0:
            list(metrics.clients())
        now[0] += 1000
    assert metrics.dropped == 0
    assert [len(client.series) for client in metrics.clients()] == [2]
    metrics.take(b"2", LABELS, [], 1000)
    assert metrics._size == sum(client.size for client in metrics.clients())


def test_clients_are_counted_even_without_metrics(metrics, monkeypatch):
    monkeypatch.setattr(received, "BYTES_MAX", 100_000)
    for number in range(9):
        for _ in range(2):
            metrics.take(b"%d" % number, {"client_id": "c" * 30_000}, [], 1000)
    assert len(list(metrics.clients())) == 3
    for number in range(1_000):
        metrics.take(b"new %d" % number, {}, [], 1000)
    assert len(list(metrics.clients())) == 100


def test_series_are_bounded_per_client_and_total(metrics, monkeypatch):
    monkeypatch.setattr(received, "CLIENT_BYTES_MAX", 2000)
    monkeypatch.setattr(received, "BYTES_MAX", 4000)
    points = [Point(f"n{number}", (), 1, False, False) for number in range(9)]
    for client in (b"1", b"2", b"3"):
        metrics.take(client, {"client_id": client.decode()}, points, 1000)
    assert [(client.labels["client_id"], len(client.series)) for client in metrics.clients()] == [
        ("2", 4),
        ("3", 4),
    ]
    assert metrics.dropped == 15
