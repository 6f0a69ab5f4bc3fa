"""The client quotas that this broker enforces, from the metadata. Source: `ClientQuotaMetadataManager` of Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import trio

from trimaran.node.listening.addresses import AddressBook
from trimaran.node.quotas.client_limits import ClientQuota, ConnectionQuota, Entity
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from trimaran.wire.transport.metrics.rate import Windows
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.hooks import Hooks, Response

# Requests that only brokers send. The fetches of followers are also exempt; the handler of Fetch recognizes them.
EXEMPT = frozenset({WriteTxnMarkersRequest.KEY})


@dataclass(slots=True)
class ClientQuotas:
    """A `Publisher` of client quotas. `produce` is `producer_byte_rate`, `fetch` is `consumer_byte_rate`, and
    `requests` is `request_percentage`, a share of the single event loop (in Kafka: of one thread).
    """

    windows: Windows = field(default_factory=Windows)
    now: Callable[[], float] = trio.current_time
    # The clock of `LoopTime`.
    loop_clock: Callable[[], float] = time.perf_counter
    produce: ClientQuota = field(init=False)
    fetch: ClientQuota = field(init=False)
    requests: ClientQuota = field(init=False)
    connections: ConnectionQuota = field(init=False)
    book: AddressBook = field(default_factory=AddressBook)
    _image: MetadataImage = EMPTY

    def __post_init__(self) -> None:
        self.produce = ClientQuota(self.windows)
        self.fetch = ClientQuota(self.windows)
        self.requests = ClientQuota(self.windows)
        self.connections = ConnectionQuota(self.windows)
        self.book.changed.append(self._set_addresses)

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        if not delta.quotas.changed:
            return
        for quota, name in (
            (self.produce, "producer_byte_rate"),
            (self.fetch, "consumer_byte_rate"),
            (self.requests, "request_percentage"),
        ):
            quota.set_limits(
                {
                    entity: each_quota.value
                    for (entity, key), each_quota in image.quotas.items()
                    if key == name
                }
            )
        self._image = image
        self._set_addresses()

    def _set_addresses(self) -> None:
        """Sets the limits of host names for their known addresses."""
        self.connections.set_limits(dict(_of_addresses(self._image, self.book.addresses)))

    def connected(self, ip: str) -> float:
        """Counts a new connection. Returns the time in seconds, at most one window, for which a connection over the
        quota must wait.
        """
        if not self.connections.is_set:
            return 0.0
        return min(self.connections.use_if_allowed(ip, self.now()), self.windows.seconds)

    def produced(self, call: Call) -> int:
        """Counts a Produce request. Returns the milliseconds for which its connection is muted."""
        if not self.produce.is_set:
            return 0
        user, client_id = _client(call)
        return call.throttle(self.produce.use(user, client_id, call.frame_bytes, self.now()))

    def fetched(self, call: Call, size: int) -> int:
        """Counts `size` bytes of records. If they exceed the quota, they are not counted and must not be sent. Returns
        the throttle time in milliseconds.
        """
        if not self.fetch.is_set:
            return 0
        user, client_id = _client(call)
        return call.throttle(self.fetch.use_if_allowed(user, client_id, size, self.now()))

    @property
    def hooks(self) -> Hooks:
        """Returns the hooks that measure and throttle every request, if there is a `request_percentage`."""
        return Hooks(charge=self._charged)

    def _charged(self, call: Call, response: Response) -> float:
        """Returns the throttle time in seconds, at most one window, as in Kafka. A producer with acks=0 gets no
        response.

        A request is charged for its own work, except for the encoding and sending of its response: this work is charged
        to the next request of its connection.
        """
        loop_time = call.connection.loop_time
        if not self.requests.is_set:
            loop_time.taken = loop_time.seconds  # this is not charged later either
            return 0.0
        taken = loop_time.take(self.loop_clock())
        if response is None:
            return 0.0
        if call.is_exempt or call.header.api_key in EXEMPT:
            return 0.0
        delay = self.requests.use(*_client(call), taken * 100, self.now())
        return min(delay, self.windows.seconds)

    def fetch_bytes_max(self, call: Call, asked: int) -> int:
        """Returns the part of a consumer's fetch size that its quota can ever allow in one response."""
        if not self.fetch.is_set:
            return asked
        most = self.fetch.most_at_once(*_client(call))
        return asked if most is None else int(min(asked, most))


def _of_addresses(
    image: MetadataImage, addresses: Callable[[str], Iterable[str]]
) -> Iterator[tuple[Entity, float]]:
    for (entity, key), quota in image.quotas.items():
        if key != "connection_creation_rate":
            continue
        name = dict(entity).get("ip")
        for ip in (None,) if name is None else addresses(name):
            yield (("ip", ip),), quota.value


def _client(call: Call) -> tuple[str, str]:
    return call.connection.principal.name, call.header.client_id
