"""Samples of the nodes' metrics during the last hour, for the charts of pages.

Nodes are scraped while a page is open, and for a quarter of an hour after that. A node with slow metrics is scraped
less often.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import trio
from prometheus_client.parser import text_string_to_metric_families

from trimaran.client.metrics_text import text_of
from trimaran.errors.user_error import UserError
from trimaran.node.runtime.clock import now_ms

SAMPLE_SECONDS = 5.0
# Samples are kept for an hour; a sample of a node has five numbers.
SAMPLES_MAX = 720
LOOKED_SECONDS = 900.0
# A node spends at most a twentieth of its time on our scrapes, whatever the number of its metrics.
PAUSE_PER_SECOND = 20.0
# The default of Prometheus: an exporter in a busy JVM takes seconds.
RESPONSE_SECONDS = 10.0
NODES_MAX = 100
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Series:
    """A number of a node from a metric. `unit` is bytes/s, 1/s or ms; with `is_total` it is a counter, and its rate is
    shown. `times` converts it to the unit.
    """

    name: str
    title: str
    metric: str
    labels: Labels
    unit: str
    is_total: bool = False
    times: float = 1.0


_TOPICS = "kafka_server_brokertopicmetrics"
_P99 = {"quantile": "0.99"}
SERIES = (
    Series("bytes-in", "Bytes in", f"{_TOPICS}_bytesin_total", {}, "bytes/s", is_total=True),
    Series("bytes-out", "Bytes out", f"{_TOPICS}_bytesout_total", {}, "bytes/s", is_total=True),
    Series("messages-in", "Messages in", f"{_TOPICS}_messagesin_total", {}, "1/s", is_total=True),
    Series(
        "produce-time",
        "Produce latency, p99",
        "kafka_network_requestmetrics_totaltimems",
        {**_P99, "request": "Produce"},
        "ms",
    ),
    Series(
        "commit-time",
        "Metadata commit latency",
        "kafka_server_raftmetrics_commit_latency_avg",
        {},
        "ms",
    ),
    Series(
        "loop-lag", "Event loop lag, p99", "trimaran_trio_loop_lag_seconds", _P99, "ms", times=1000
    ),
)
# A JMX exporter omits the suffix `_total` of counters.
_NAMES = tuple(
    dict.fromkeys(
        n
        for each_series in SERIES
        for n in (each_series.metric, each_series.metric.removesuffix("_total"))
    )
)
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class SamplePoint:
    """A sample; `value` is None if the node did not respond."""

    at_ms: int
    value: float | None


@dataclass(frozen=True, slots=True)
class _NodeSample:
    at_ms: int
    nodes: Mapping[str, Values]


class Samples:
    """Samples of all nodes. Thread-safe. `sources` returns the addresses of metrics by the name of their node; it is
    called for each scrape, since nodes may be added.
    """

    def __init__(self, sources: Callable[[], Mapping[str, str]]) -> None:
        self._sources = sources
        self._samples: deque[_NodeSample] = deque(maxlen=SAMPLES_MAX)
        self._looked_at = time.monotonic()
        self._lock = threading.Lock()
        self.silent: list[str] = []  # nodes that did not respond to the last scrape

    def note_page(self) -> bool:
        """Records that a page is open, so that samples are taken. Returns whether any address of metrics is known."""
        self._looked_at = time.monotonic()
        return bool(self._sources())

    @property
    def is_looked_at(self) -> bool:
        return time.monotonic() - self._looked_at < LOOKED_SECONDS

    def take(self) -> float:
        """Scrapes every node once, and returns the seconds that the slowest took. A node that does not respond is
        skipped.
        """
        found, silent, slowest = {}, [], 0.0
        for name, address in list(self._sources().items())[:NODES_MAX]:
            began = time.monotonic()
            try:
                found[name] = values_of(text_of(address, RESPONSE_SECONDS, _NAMES))
            except UserError:
                silent.append(name)
            slowest = max(slowest, time.monotonic() - began)
        with self._lock:
            self._samples.append(_NodeSample(now_ms(), found))
        self.silent = silent
        return slowest

    def of(self, series: Series, since_ms: int = 0) -> dict[str, list[SamplePoint]]:
        """Returns the samples by node, the oldest first, of the nodes that report the series."""
        with self._lock:
            samples = [sample for sample in self._samples if sample.at_ms >= since_ms]
        nodes = sorted(
            {
                name
                for sample in samples
                for name, told in sample.nodes.items()
                if series.name in told
            }
        )
        return {name: list(_points(samples, name, series)) for name in nodes}


def _points(samples: list[_NodeSample], node: str, series: Series) -> Iterable[SamplePoint]:
    before: tuple[int, float] | None = None
    for sample in samples:
        value = sample.nodes.get(node, {}).get(series.name)
        if not series.is_total:
            yield SamplePoint(sample.at_ms, value)
            continue
        if value is None:
            before = None
            yield SamplePoint(sample.at_ms, None)
        elif before is not None:
            seconds = max(1, sample.at_ms - before[0]) / 1000
            # A restarted node counts from zero.
            yield SamplePoint(
                sample.at_ms, (value - before[1]) / seconds if value >= before[1] else None
            )
        if value is not None:
            before = (sample.at_ms, value)


def values_of(text: str) -> Values:
    """Returns the numbers of `SERIES` in a text of metrics. Raises UserError if it is invalid."""
    wanted = tuple(series.metric for series in SERIES)
    lines = "\n".join(
        # These metrics also exist for each topic; parsing those lines costs a hundred times as much as skipping them.
        line
        for line in text.splitlines()
        if line.startswith(wanted) and 'topic="' not in line
    )
    found: Values = {}
    try:
        for family in text_string_to_metric_families(f"{lines}\n"):
            for sample in family.samples:
                for series in SERIES:
                    if sample.name == series.metric and sample.labels == series.labels:
                        found[series.name] = float(sample.value) * series.times
    except ValueError as error:
        raise UserError(
            "the response is not metrics",
            str(error),
            "check the address: HOST:PORT of trimaran.metrics.listener or a JMX exporter",
        ) from error
    # NaN: there is no value yet.
    return {name: value for name, value in found.items() if value == value}


async def keep_sampling(samples: Samples) -> None:
    """Takes samples until it is cancelled."""
    while True:
        started = trio.current_time()
        slowest = 0.0
        if samples.is_looked_at:
            slowest = await trio.to_thread.run_sync(samples.take, abandon_on_cancel=True)
        took = trio.current_time() - started
        await trio.sleep(max(SAMPLE_SECONDS - took, slowest * PAUSE_PER_SECOND))
