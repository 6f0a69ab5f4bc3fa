"""A push is decoded to numbers or refused, within limits."""

import tracemalloc

import pytest

from tests.broker.telemetry.pushes import CUMULATIVE, metrics_data, pushed
from trimaran.broker.telemetry.otlp import Point, points_of
from trimaran.log.codecs.compression import Compression, OutputTooLarge, compress
from trimaran.wire.errors import RemoteProtocolError

BYTES_MAX = 1 << 20
BOMB_BYTES_MAX = 32 << 10


@pytest.mark.parametrize("kind", Compression)
def test_gauges_and_sums_are_read_with_their_labels(kind):
    data = pushed(
        gauges=[("a.rate", 1.5, {"topic": "t"})],
        sums=[("b.total", 3, {})],
        resource={"client_rack": "r"},
    )
    if kind is not Compression.NONE:
        data = compress(kind, data)
    assert points_of(data, kind, BYTES_MAX) == [
        Point("a.rate", (("client_rack", "r"), ("topic", "t")), 1.5, False, False),
        Point("b.total", (("client_rack", "r"),), 3.0, True, True),
    ]


def test_nonmonotonic_sum_is_no_counter_cumulative_no_delta():
    data = pushed(sums=[("open", 3, {})], monotonic=False)
    assert points_of(data, 0, BYTES_MAX) == [Point("open", (), 3.0, False, True)]
    data = pushed(sums=[("all", 3, {})], temporality=CUMULATIVE)
    assert points_of(data, 0, BYTES_MAX) == [Point("all", (), 3.0, True, False)]


def test_histograms_and_overlong_names_are_skipped():
    data = metrics_data(gauges=[("a" * 256, 1, {}), ("b", 2, {"long": "x" * 256, "ok": "y"})])
    metric = data.resource_metrics[0].scope_metrics[0].metrics.add(name="h")
    metric.histogram.data_points.add(count=1)
    assert points_of(data.SerializeToString(), 0, BYTES_MAX) == [
        Point("b", (("ok", "y"),), 2.0, False, False)
    ]


CODECS = [kind for kind in Compression if kind is not Compression.NONE]


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_decompressed_push_is_bounded(kind, more):
    data = pushed(gauges=[("open", 3, {})])
    known = points_of(data, Compression.NONE, 0)
    packed = compress(kind, data)
    if more < 0:
        with pytest.raises(OutputTooLarge):
            points_of(packed, kind, len(data) + more)
    else:
        assert points_of(packed, kind, len(data) + more) == known


@pytest.mark.parametrize("kind", CODECS)
def test_bomb_takes_no_memory_beyond_the_bound(kind):
    """A thousand times the bound is refused after few times the bound, in each codec."""
    bomb = compress(kind, bytes(1000 * BOMB_BYTES_MAX))
    with pytest.raises(OutputTooLarge):  # the first one imports the codec
        points_of(bomb, kind, BOMB_BYTES_MAX)
    tracemalloc.start()
    try:
        with pytest.raises(OutputTooLarge):
            points_of(bomb, kind, BOMB_BYTES_MAX)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(bomb) + 8 * BOMB_BYTES_MAX


@pytest.mark.parametrize("kind", Compression)
def test_invalid_push_is_refused(kind):
    with pytest.raises(RemoteProtocolError):
        points_of(b"\xff" * 40, kind, BYTES_MAX)
