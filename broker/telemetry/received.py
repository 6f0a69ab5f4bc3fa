"""The newest metrics of clients, for scrapers of this broker. A series expires when its client stops pushing it, for
example a series of a partition that the client no longer consumes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trimaran.broker.telemetry.otlp import Point
from trimaran.node.text.memory import text_bytes

Labels = tuple[tuple[str, str], ...]

# The bound for all clients: 30,000 to 60,000 numbers with their names. The clients that have been silent longest are
# dropped first.
BYTES_MAX = 16 << 20
# The bound for one client: enough for all metrics of a Java consumer with 1,000 partitions. The rest is dropped.
CLIENT_BYTES_MAX = 1 << 20
# The cost of a series without its labels, and that of a client.
_SERIES_BYTES = 200
_CLIENT_BYTES = 1_000


class PushedSeries(NamedTuple):
    """The newest value of a series, with the size of the series."""

    value: float
    size: int
    expires_ms: int


@dataclass(slots=True, eq=False)
class ClientSeries:
    """The series of one client, which `labels` identify, by name, labels and whether the value is a sum; those that
    were pushed longest ago are first.
    """

    labels: dict[str, str]
    series: dict[tuple[str, Labels, bool], PushedSeries] = field(default_factory=dict)
    size: int = 0
    expires_ms: int = 0

    def expire(self, now_ms: int) -> None:
        """Drops the series that have not been pushed lately."""
        while self.series:
            key, oldest = next(iter(self.series.items()))
            if oldest.expires_ms > now_ms:
                return
            self.size -= oldest.size
            del self.series[key]


class ReceivedMetrics:
    """The series by client instance. Times are in milliseconds of the broker's monotonic clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.dropped = 0
        self._now_ms = now_ms
        self._clients: OrderedDict[bytes, ClientSeries] = OrderedDict()
        self._size = 0

    def take(
        self, instance_id: bytes, labels: dict[str, str], points: Iterable[Point], kept_ms: int
    ) -> None:
        """Adds a push, which is valid for `kept_ms`. Gauges keep the newest value; deltas of sums are added up."""
        client = self._clients.get(instance_id)
        before = 0 if client is None else client.size
        if client is None:
            client = self._clients[instance_id] = ClientSeries({}, size=_CLIENT_BYTES)
        self._clients.move_to_end(instance_id)
        client.size += labels_bytes(labels) - labels_bytes(client.labels)
        now_ms = self._now_ms()
        client.expire(now_ms)
        client.labels, client.expires_ms = labels, now_ms + kept_ms
        for point in points:
            if not _add(client, point):
                self.dropped += 1
        self._size += client.size - before
        while self._size > BYTES_MAX:
            self._size -= self._clients.popitem(last=False)[1].size

    def clients(self) -> Iterator[ClientSeries]:
        """Yields the clients with metrics that have not expired, and removes all others."""
        now_ms = self._now_ms()
        for instance_id, client in list(self._clients.items()):
            if client.expires_ms <= now_ms:
                self._size -= self._clients.pop(instance_id).size
            else:
                before = client.size
                client.expire(now_ms)
                self._size += client.size - before
                yield client


def labels_bytes(labels: dict[str, str]) -> int:
    """Returns the approximate size of the texts of a client's labels."""
    return sum(map(text_bytes, labels.values()))


def _add(client: ClientSeries, point: Point) -> bool:
    """Adds a point. Returns False if there is no room."""
    key = (point.name, point.labels, point.is_sum)
    before = client.series.pop(key, None)
    if before is None:
        texts = sum(text_bytes(k) + text_bytes(v) for k, v in point.labels)
        size = _SERIES_BYTES + text_bytes(point.name) + texts
        if client.size + size > CLIENT_BYTES_MAX:
            return False
        client.size += size
        before = PushedSeries(0.0, size, 0)
    value = point.value + (before.value if point.is_delta else 0.0)
    client.series[key] = PushedSeries(value, before.size, client.expires_ms)
    return True
