"""The quotas of clients that this broker holds them to, as the metadata has them. Source: `ClientQuotaMetadataManager`
of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from node.client_quotas import ClientQuota
from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import MetadataImage
from quorum.metadata.loader import Manifest
from wire.transport.calls import Call
from wire.transport.rate import Windows


@dataclass(slots=True)
class ClientQuotas:
    """A `Publisher`. `produce` is `producer_byte_rate`, `fetch` is `consumer_byte_rate`."""

    windows: Windows = field(default_factory=Windows)
    now: Callable[[], float] = trio.current_time
    produce: ClientQuota = field(init=False)
    fetch: ClientQuota = field(init=False)

    def __post_init__(self) -> None:
        self.produce = ClientQuota(self.windows)
        self.fetch = ClientQuota(self.windows)

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        if not delta.quotas.changed:
            return
        for quota, name in (
            (self.produce, "producer_byte_rate"),
            (self.fetch, "consumer_byte_rate"),
        ):
            quota.set_limits(
                {entity: one.value for (entity, key), one in image.quotas.items() if key == name}
            )

    def produced(self, call: Call) -> int:
        """Counts a Produce; milliseconds for which its connection is muted."""
        if not self.produce.is_set:
            return 0
        user, client_id = _client(call)
        return call.throttle(self.produce.use(user, client_id, call.frame_bytes, self.now()))

    def fetched(self, call: Call, size: int) -> int:
        """Counts `size` bytes of records. If they are too many, they do not count, and are not to be answered."""
        if not self.fetch.is_set:
            return 0
        user, client_id = _client(call)
        return call.throttle(self.fetch.use_if_allowed(user, client_id, size, self.now()))

    def fetch_bytes_max(self, call: Call, asked: int) -> int:
        """Of what a consumer asks for, what its quota could ever give at once."""
        if not self.fetch.is_set:
            return asked
        most = self.fetch.most_at_once(*_client(call))
        return asked if most is None else int(min(asked, most))


def _client(call: Call) -> tuple[str, str]:
    return call.connection.principal.name, call.header.client_id or ""
