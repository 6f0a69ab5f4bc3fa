"""Placement of the replicas of new partitions, striped over racks and over the brokers of each rack.

Consecutive partitions start at consecutive racks, and in a rack at consecutive brokers, so that leaders and replicas
are spread evenly. The first replica is always on an unfenced broker; fenced ones come last in their rack. Once every
unfenced broker has led one partition of the request, the order is shuffled so that patterns do not repeat. Source:
Kafka's `StripedReplicaPlacer`. The caller passes the source of randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from trimaran.quorum.metadata.image import BrokerRegistration
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId


class PlacementPrng(Protocol):
    """The methods of `random.Random` that are used."""

    def randrange(self, stop: int, /) -> int: ...

    def shuffle(self, x: Any, /) -> None: ...


@dataclass(slots=True)
class _Ring:
    """Brokers in rotation, each once in a round; every round starts one position later."""

    brokers: list[BrokerId] = field(default_factory=list)
    start: int = 0
    taken: int = 0
    round: int = 0

    def begin(self, prng: PlacementPrng) -> None:
        if self.brokers:
            self.brokers.sort()
            self.start = prng.randrange(len(self.brokers))

    def next(self, round_: int) -> BrokerId | None:
        if not self.brokers:
            return None
        if self.round != round_:
            self.round, self.taken = round_, 0
            self.start = (self.start + 1) % len(self.brokers)
        if self.taken >= len(self.brokers):
            return None
        broker = self.brokers[(self.start + self.taken) % len(self.brokers)]
        self.taken += 1
        return broker


@dataclass(slots=True)
class _Rack:
    unfenced: _Ring = field(default_factory=_Ring)
    fenced: _Ring = field(default_factory=_Ring)

    def next(self, round_: int) -> BrokerId | None:
        broker = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker is None else broker


class _Racks:
    def __init__(self, brokers: Iterable[BrokerRegistration], prng: PlacementPrng) -> None:
        self._prng = prng
        racks: dict[str | None, _Rack] = {}
        self.total = self.unfenced = 0
        for broker in brokers:
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.id)
            self.total += 1
            self.unfenced += not broker.fenced
        names = sorted(racks, key=lambda name: name or "")
        self._racks = [racks[name] for name in names]
        for rack in self._racks:
            rack.unfenced.begin(prng)
            rack.fenced.begin(prng)
        self._start = prng.randrange(len(self._racks)) if self._racks else 0
        self._round = 0

    def place(self, replication_factor: int) -> tuple[BrokerId, ...]:
        """Returns the replicas of the next partition."""
        if self._round == self.unfenced > 1:
            self._shuffle()
            self._round = 0
        count = len(self._racks)
        leader, leader_rack = self._take_leader()
        replicas = [leader]
        # The leader's rack is skipped once, because it has a replica already.
        position, passed_over = self._start, False
        while len(replicas) < replication_factor:
            if position == leader_rack and not passed_over:
                passed_over = True
            else:
                broker = self._racks[position].next(self._round)
                if broker is not None:
                    replicas.append(broker)
            position = (position + 1) % count
        self._round += 1
        self._start = (self._start + 1) % count
        return tuple(replicas)

    def _take_leader(self) -> tuple[BrokerId, int]:
        for step in range(len(self._racks)):
            position = (self._start + step) % len(self._racks)
            broker = self._racks[position].unfenced.next(self._round)
            if broker is not None:
                return broker, position
        raise AssertionError("there is an unfenced broker")

    def _shuffle(self) -> None:
        self._prng.shuffle(self._racks)
        for rack in self._racks:
            self._prng.shuffle(rack.unfenced.brokers)
            self._prng.shuffle(rack.fenced.brokers)


def place_replicas(
    brokers: Iterable[BrokerRegistration],
    partition_count: int,
    replication_factor: int,
    prng: PlacementPrng,
) -> Iterator[tuple[BrokerId, ...]]:
    """Yields replicas for `partition_count` new partitions; the first of each is the preferred leader.

    Brokers that are about to shut down, and those whose directories are all cordoned, get no replicas. A broker that
    has shut down counts as fenced.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR.
    """
    racks = _Racks((broker for broker in brokers if _is_usable(broker)), prng)
    why = None
    if replication_factor <= 0:
        why = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif racks.unfenced == 0:
        why = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > racks.total:
        why = (
            f"The target replication factor of {replication_factor} cannot be reached because only {racks.total} "
            f"broker(s) are "
            "registered or some brokers have all their log directories cordoned."
        )
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    return (racks.place(replication_factor) for _ in range(partition_count))


def _is_usable(broker: BrokerRegistration) -> bool:
    cordoned = broker.cordoned_directories or ()
    all_cordoned = bool(broker.directories) and set(broker.directories) <= set(cordoned)
    # The registration of a broker that has shut down has both flags until it returns.
    about_to_go = broker.in_controlled_shutdown and not broker.fenced
    return not about_to_go and not all_cordoned
