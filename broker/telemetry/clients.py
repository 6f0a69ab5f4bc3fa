"""The clients that push metrics: their subscriptions, and when they may push. Source: Kafka's `ClientMetricsManager`,
`ClientMetricsInstance`.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import crc32c

from trimaran.broker import events
from trimaran.broker.telemetry.received import ReceivedMetrics, labels_bytes
from trimaran.broker.telemetry.subscriptions import Subscription, Wanted, subscription_of, wanted_of
from trimaran.log.codecs.compression import Compression
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import CLIENT_METRICS_RESOURCE, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_to_text
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo

log = logging.getLogger(__name__)

# As in Kafka, a broker remembers this many clients, each for the longer of a minute and three intervals.
CLIENTS_MAX = 16384
# The bound for the labels of all clients: 500 bytes each, or more for fewer clients. One label may have up to 32,767
# bytes.
LABELS_BYTES_MAX = 8 << 20
_KEPT_MS = 60_000
_KEPT_INTERVALS = 3
# The interval of sweeps. A sweep takes about 0.2 ms for all clients, which is little compared with the pushes between
# two sweeps.
_SWEEP_MS = 10_000
_RESERVED = frozenset({NIL_UUID, bytes(15) + b"\x01"})
_COMPRESSIONS = frozenset(map(int, Compression))
# After these errors a client may request its subscription again immediately.
_FORGIVEN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@dataclass(slots=True, eq=False)
class Client:
    """The broker's data of one client; times in milliseconds of the broker's monotonic clock."""

    instance_id: bytes
    labels: dict[str, str]
    wanted: Wanted
    subscription_id: int
    version: int
    asked_ms: int | None = None
    pushed_ms: int | None = None
    has_asked: bool = False  # whether it has requested its subscription since its last push
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    expires_ms: int = 0

    @property
    def kept_ms(self) -> int:
        """The maximum time without requests after which the client is forgotten, in ms."""
        return max(_KEPT_MS, self.wanted.interval_ms * _KEPT_INTERVALS)

    def may_ask(self, now_ms: int, *, forgiven: bool) -> bool:
        """Returns whether the client may request its subscription: once per interval, counting pushes; immediately if
        `forgiven`.
        """
        last = max(
            (time_ms for time_ms in (self.asked_ms, self.pushed_ms) if time_ms is not None),
            default=None,
        )
        if not forgiven and last is not None and now_ms - last < self.wanted.interval_ms:
            return False
        self.asked_ms, self.has_asked = now_ms, True
        return True

    def may_push(self, now_ms: int) -> bool:
        """Returns whether the client may push: once per interval, and once after a request for its subscription, since
        clients begin at a random point of the interval.
        """
        is_early = self.pushed_ms is not None and now_ms - self.pushed_ms < self.wanted.interval_ms
        if is_early and not self.has_asked:
            return False
        self.pushed_ms, self.has_asked = now_ms, False
        return True


@dataclass(slots=True)
class Counts:
    """Counts since the broker started."""

    unknown_subscriptions: int = 0
    throttled: int = 0
    exported: int = 0
    refused: int = 0


class ClientMetrics:
    """A `Publisher` of subscriptions. Accepted pushes go to `received`; if it is None, they are not collected, and
    clients are not requested to push.
    """

    def __init__(
        self, received: ReceivedMetrics | None, bytes_max: int, now_ms: Callable[[], int]
    ) -> None:
        self.received = received
        self.bytes_max = bytes_max
        self.counts = Counts()
        self._now_ms = now_ms
        self._subscriptions: dict[str, Subscription] = {}
        self._version = 0
        # The clients in the order of their last requests.
        self._clients: OrderedDict[bytes, Client] = OrderedDict()
        self._labels_bytes = 0
        self._by_connection: dict[int, bytes] = {}
        self._swept_ms = 0
        self._warned = False

    def __len__(self) -> int:
        return len(self._clients)

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        changed = [name for kind, name in delta.configs.changed if kind == CLIENT_METRICS_RESOURCE]
        if not changed:
            return
        for name in changed:
            self._subscriptions.pop(name, None)
            if own := image.configs.of(CLIENT_METRICS_RESOURCE, name):
                self._subscriptions[name] = found = subscription_of(own)
                if found.match is None:
                    events.TELEMETRY_UNKNOWN_PATTERN.log(log, subscription=name)
        self._version += 1
        if self.received is None and not self._warned:
            self._warned = True
            events.TELEMETRY_COLLECTS_NOTHING.log(log, subscription=changed[0])

    def asked(self, instance_id: bytes, call: Call) -> Client:
        """Returns the client that requests its subscription; assigns an id if it has none.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED if its last request or push was too recent.
        """
        while instance_id in _RESERVED:
            instance_id = os.urandom(16)
        client = self._client(instance_id, call)
        if not client.may_ask(self._now_ms(), forgiven=client.last_error in _FORGIVEN):
            self.counts.throttled += 1
            raise _too_early(instance_id)
        client.last_error = ErrorCode.NONE
        return client

    def pushed(
        self,
        instance_id: bytes,
        call: Call,
        *,
        subscription_id: int,
        terminating: bool,
        compression: int,
        size: int,
    ) -> Client:
        """Returns the client that pushes `size` bytes, which are not decoded yet.

        Raises:
            KafkaError: the reason for a refused push.
        """
        if instance_id in _RESERVED:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "invalid client instance id")
        client = self._client(instance_id, call)
        try:
            self._check(client, subscription_id, compression, size, terminating=terminating)
        except KafkaError as error:
            client.last_error = error.code
            raise
        finally:
            client.terminating = terminating
        client.last_error = ErrorCode.NONE
        return client

    def _check(
        self,
        client: Client,
        subscription_id: int,
        compression: int,
        size: int,
        *,
        terminating: bool,
    ) -> None:
        name = uuid_to_text(client.instance_id)
        if client.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"client {name} has said its last push")
        if not client.may_push(self._now_ms()) and not terminating:
            self.counts.throttled += 1
            raise _too_early(client.instance_id)
        if subscription_id != client.subscription_id:
            self.counts.unknown_subscriptions += 1
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"client {name} has another subscription"
            )
        if compression not in _COMPRESSIONS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression {compression}"
            )
        if size > self.bytes_max:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE, f"{size} bytes of metrics, of {self.bytes_max}"
            )

    def _client(self, instance_id: bytes, call: Call) -> Client:
        now_ms = self._now_ms()
        self._sweep(now_ms)
        client = self._clients.get(instance_id)
        if client is None:
            labels = labels_of(instance_id, call)
            client = self._created(instance_id, labels, call.connection)
        elif client.version != self._version:
            client = self._created(instance_id, client.labels, call.connection)
        self._clients.move_to_end(instance_id)
        client.expires_ms = now_ms + client.kept_ms
        return client

    def _created(
        self, instance_id: bytes, labels: dict[str, str], connection: ConnectionInfo
    ) -> Client:
        wanted = wanted_of(labels, self._subscriptions.values())
        number = subscription_id_of(wanted, instance_id)
        client = Client(instance_id, labels, wanted, number, self._version)
        self._forget(instance_id)
        self._clients[instance_id] = client
        self._labels_bytes += labels_bytes(labels)
        while len(self._clients) > CLIENTS_MAX or self._labels_bytes > LABELS_BYTES_MAX:
            self._forget(next(iter(self._clients)))
        if (
            connection.id not in self._by_connection
        ):  # one callback per connection, even if its ids change
            connection.on_close(lambda: self._disconnected(connection.id))
        if not connection.closed:
            self._by_connection[connection.id] = instance_id
        return client

    def _disconnected(self, connection_id: int) -> None:
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        if (gone := self._clients.pop(instance_id, None)) is not None:
            self._labels_bytes -= labels_bytes(gone.labels)

    def _sweep(self, now_ms: int) -> None:
        if now_ms - self._swept_ms < _SWEEP_MS:
            return
        self._swept_ms = now_ms
        for gone in [client for client in self._clients.values() if client.expires_ms <= now_ms]:
            self._forget(gone.instance_id)


def labels_of(instance_id: bytes, call: Call) -> dict[str, str]:
    """Returns the values that subscriptions' patterns match, by parameter."""
    name, version = call.connection.client_software or ("", "")
    found = {
        "client_instance_id": uuid_to_text(instance_id),
        "client_id": call.header.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": call.connection.peer_text,
        "client_source_port": str(call.connection.peer[1]),
    }
    return {key: value for key, value in found.items() if value}


def subscription_id_of(wanted: Wanted, instance_id: bytes) -> int:
    """Returns a number that depends on the metrics, the interval and the client. Source: `computeSubscriptionId`."""
    text = f"[{', '.join(wanted.metrics)}]{wanted.interval_ms}"
    most, least = int.from_bytes(instance_id[:8], "big"), int.from_bytes(instance_id[8:], "big")
    mixed = most ^ least
    number = crc32c.crc32c(text.encode()) ^ (mixed >> 32) ^ (mixed & 0xFFFFFFFF)
    return number - (1 << 32) if number >> 31 else number


def _too_early(instance_id: bytes) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"client {uuid_to_text(instance_id)} came too early"
    )


def collecting(metrics: ClientMetrics | None) -> tuple[ClientMetrics, ReceivedMetrics]:
    """Returns `metrics` with its collector. Raises KafkaError if there is none; clients then stop requesting."""
    if metrics is None or metrics.received is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "nothing collects metrics of clients here")
    return metrics, metrics.received
