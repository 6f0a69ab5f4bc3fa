"""Which brokers are alive: the controller's only soft state, which each active controller builds for itself.

A lease is extended by every heartbeat. It belongs to one incarnation (broker epoch) and remembers the connection that
carried its last heartbeat: once that is closed the lease is `disconnected`, and the controller checks whether the
process still exists. Source: Kafka's `BrokerHeartbeatManager`, `BrokerHeartbeatTracker`. The clock is the caller's:
`now` is passed in, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from trimaran.quorum.metadata.image import BrokerRegistration, MetadataImage
from trimaran.wire.identity import NO_OFFSET, BrokerEpoch, BrokerId, Offset

# A broker that lives heartbeats to a new controller within this time: Kafka's every two seconds, ours sooner. A refused
# connection is half a proof for a controller that has no connection of the broker that has closed.
FIRST_HEARTBEAT_SECONDS = 2.5


@dataclass(slots=True)
class Lease:
    """`shutdown_offset` is the metadata offset of the last thing that the broker's controlled shutdown took from it, -1
    if it has not begun; `draining`: there is more to take. Its first heartbeat is `expected_by` then, if
    none has come yet.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    deadline: float
    metadata_offset: Offset = NO_OFFSET
    shutdown_offset: Offset = NO_OFFSET
    connection_id: int | None = None
    disconnected: bool = False
    draining: bool = False
    expected_by: float = -inf


class Leases:
    """At most one lease for each registered broker."""

    def __init__(self, session_seconds: float) -> None:
        self._session_seconds = session_seconds
        self._leases: dict[BrokerId, Lease] = {}

    def begin(self, image: MetadataImage, now: float) -> None:
        """Gives every unfenced broker a full lease, an orphaned one: a new controller has received no heartbeat, and a
        broker that died with the last controller would never be seen to close a connection to this one.
        """
        for broker in image.cluster.brokers.values():
            if not broker.fenced:
                lease = self.extend(broker.id, broker.epoch, now)
                lease.disconnected, lease.expected_by = True, now + FIRST_HEARTBEAT_SECONDS

    def extend(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, now: float) -> Lease:
        """Called for every heartbeat, before anything else can fail it."""
        lease = self.get(broker_id, broker_epoch)
        if lease is None:
            lease = self._leases[broker_id] = Lease(broker_id, broker_epoch, 0.0)
        lease.deadline, lease.expected_by = now + self._session_seconds, -inf
        return lease

    def of(self, broker_id: BrokerId) -> Lease | None:
        """The lease of the broker's newest incarnation, whether it is over or not."""
        return self._leases.get(broker_id)

    def get(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> Lease | None:
        """The lease of one incarnation, whether it is over or not."""
        lease = self._leases.get(broker_id)
        return lease if lease is not None and lease.broker_epoch == broker_epoch else None

    def is_valid(self, broker: BrokerRegistration, now: float) -> bool:
        """Whether the registered incarnation must be taken to be alive."""
        lease = self.get(broker.id, broker.epoch)
        return lease is not None and now < lease.deadline

    def end(self, broker_id: BrokerId) -> None:
        self._leases.pop(broker_id, None)

    def disconnected_leases(self) -> list[Lease]:
        """Leases that no connection stands behind."""
        return [lease for lease in self._leases.values() if lease.disconnected]

    def draining(self) -> list[Lease]:
        """Leases of brokers from which partitions are still to be taken."""
        return [lease for lease in self._leases.values() if lease.draining]

    def expired(self, now: float) -> list[Lease]:
        return [lease for lease in self._leases.values() if lease.deadline <= now]

    def extend_all(self, seconds: float) -> None:
        """Extends all leases: time in which this controller could not read counts against no broker."""
        for lease in self._leases.values():
            lease.deadline += seconds

    def next_deadline(self) -> float | None:
        """When the first lease ends, if no heartbeat extends it."""
        return min((lease.deadline for lease in self._leases.values()), default=None)

    def lowest_active_offset(self, image: MetadataImage) -> Offset | None:
        """How far the slowest active broker has come in the metadata log; None without any."""
        return min(
            (
                lease.metadata_offset
                for lease in self._leases.values()
                if lease.shutdown_offset < 0 and _is_unfenced(image, lease)
            ),
            default=None,
        )


def _is_unfenced(image: MetadataImage, lease: Lease) -> bool:
    broker = image.cluster.brokers.get(lease.broker_id)
    return broker is not None and broker.epoch == lease.broker_epoch and not broker.fenced
