"""`controller_mutation_rate`: the number of partitions that clients may create and delete per second, as set in the
metadata.

Each controller keeps its own buckets: a new leader begins with full buckets, as in Kafka. For a forwarded request, the
Envelope carries the client's principal, and its broker applies the throttle time. Source:
`ControllerMutationQuotaManager`, `StrictControllerMutationQuota`, `PermissiveControllerMutationQuota` of Kafka,
KIP-599.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from trimaran.node.quotas.client_limits import MutationQuota
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.metrics.rate import Windows
from trimaran.wire.transport.requests.calls import Call

Spend = Callable[[int], None]
"""Counts created or deleted partitions. Raises KafkaError THROTTLING_QUOTA_EXCEEDED, and counts nothing then."""


def without_quota(_partitions: int) -> None:
    """Accepts any number of partitions, for clients without a quota."""


@dataclass(slots=True)
class MutationQuotas:
    """The mutation quotas of all clients; a `Publisher`."""

    windows: Windows = field(default_factory=Windows)
    now: Callable[[], float] = trio.current_time
    mutations: MutationQuota = field(init=False)

    def __post_init__(self) -> None:
        self.mutations = MutationQuota(self.windows)

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        if delta.quotas.changed:
            self.mutations.set_limits(
                {
                    entity: quota.value
                    for (entity, key), quota in image.quotas.items()
                    if key == "controller_mutation_rate"
                }
            )

    def of(self, call: Call, strict_since: int) -> Spend:
        """Returns the function that charges the client's quota; it throttles the call.

        Versions from `strict_since` on are refused with THROTTLING_QUOTA_EXCEEDED. Older versions are accepted and then
        throttled.
        """
        if not self.mutations.is_set:
            return without_quota
        user, client_id = call.connection.principal.name, call.header.client_id

        def permissive(partitions: int) -> None:
            call.throttle(self.mutations.use(user, client_id, partitions, self.now()))

        def strict(partitions: int) -> None:
            delay = self.mutations.use_if_allowed(user, client_id, partitions, self.now())
            if delay:
                call.throttle(delay)
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

        return strict if call.header.api_version >= strict_since else permissive
