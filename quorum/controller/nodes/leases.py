"""Leases that show which brokers are alive: the controller's only soft state, built by each active controller for
itself.

A lease is extended by every heartbeat. It belongs to one incarnation (broker epoch) and remembers the connection that
carried its last heartbeat: once that connection is closed, the lease is `disconnected`, and the controller checks
whether the process still exists. Source: Kafka's `BrokerHeartbeatManager`, `BrokerHeartbeatTracker`. The caller passes
`now`, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from trimaran.quorum.metadata.image import BrokerRegistration, MetadataImage
from trimaran.wire.identity import NO_OFFSET, BrokerEpoch, BrokerId, Offset

# A live broker sends its first heartbeat to a new controller within this time: Kafka's brokers every two seconds, our
# brokers earlier. A controller that never had a connection of the broker needs both a missed heartbeat and a refused
# connection.
FIRST_HEARTBEAT_SECONDS = 2.5


@dataclass(slots=True)
class Lease:
    """The lease of one broker incarnation. `shutdown_offset` is the metadata offset of the last change by the broker's
    controlled shutdown, -1 if that has not begun; `draining` means that partitions remain to be moved. `expected_by` is
    the time by which the first heartbeat is expected, if none has arrived yet.
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
    """The leases of all brokers, at most one for each registered broker."""

    def __init__(self, session_seconds: float) -> None:
        self._session_seconds = session_seconds
        self._leases: dict[BrokerId, Lease] = {}

    def begin(self, image: MetadataImage, now: float) -> None:
        """Gives every unfenced broker a full lease without a connection. A new controller has received no heartbeat,
        and if a broker died together with the previous controller, the new one would never see its connection close.
        """
        for broker in image.cluster.brokers.values():
            if not broker.fenced:
                lease = self.extend(broker.id, broker.epoch, now)
                lease.disconnected, lease.expected_by = True, now + FIRST_HEARTBEAT_SECONDS

    def extend(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, now: float) -> Lease:
        """Extends the lease; called for every heartbeat, before it can fail for any other reason."""
        lease = self.get(broker_id, broker_epoch)
        if lease is None:
            lease = self._leases[broker_id] = Lease(broker_id, broker_epoch, 0.0)
        lease.deadline, lease.expected_by = now + self._session_seconds, -inf
        return lease

    def of(self, broker_id: BrokerId) -> Lease | None:
        """Returns the lease of the broker's newest incarnation, even if it has expired."""
        return self._leases.get(broker_id)

    def get(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> Lease | None:
        """Returns the lease of one incarnation, even if it has expired."""
        lease = self._leases.get(broker_id)
        return lease if lease is not None and lease.broker_epoch == broker_epoch else None

    def is_valid(self, broker: BrokerRegistration, now: float) -> bool:
        """Returns whether the registered incarnation must be assumed alive."""
        lease = self.get(broker.id, broker.epoch)
        return lease is not None and now < lease.deadline

    def end(self, broker_id: BrokerId) -> None:
        self._leases.pop(broker_id, None)

    def disconnected_leases(self) -> list[Lease]:
        """Returns the leases without an open connection."""
        return [lease for lease in self._leases.values() if lease.disconnected]

    def draining(self) -> list[Lease]:
        """Returns the leases of brokers whose partitions are still being moved away."""
        return [lease for lease in self._leases.values() if lease.draining]

    def expired(self, now: float) -> list[Lease]:
        return [lease for lease in self._leases.values() if lease.deadline <= now]

    def extend_all(self, seconds: float) -> None:
        """Extends all leases by the time in which this controller could not read heartbeats."""
        for lease in self._leases.values():
            lease.deadline += seconds

    def next_deadline(self) -> float | None:
        """Returns the time when the first lease expires if no heartbeat extends it."""
        return min((lease.deadline for lease in self._leases.values()), default=None)

    def lowest_active_offset(self, image: MetadataImage) -> Offset | None:
        """Returns the lowest metadata offset that any active broker has applied; None without active brokers."""
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
