"""Records of transactions that are still open, by producer.

A record of a committed transaction counts as if it had been plain, at its own offset: later records of its key stand
against it. Source: `OffsetMetadataManager.replayEndTransactionMarker` of Kafka (KIP-98).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, KeysView
from typing import Generic, NamedTuple, TypeVar

from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.identity import Offset

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PendingRecord(NamedTuple, Generic[K, V]):
    """A record whose transaction is open, where in the log it stands, and what it and its key weigh."""

    offset: Offset
    producer: Producer
    key: K
    value: V
    weight: int
    key_weight: int


class PendingTransactions(Generic[K, V]):
    """At most one record for each producer and key, the last; as many as the log holds of open transactions.

    `part_of` says what a key is counted by in `parts`, `weigh` what a record adds to `weight`, `weigh_key` what it adds
    to `key_weight`.
    """

    def __init__(
        self,
        part_of: Callable[[K], Hashable] = lambda _key: None,
        weigh: Callable[[V], int] = lambda _value: 0,
        weigh_key: Callable[[K], int] = lambda _key: 0,
    ) -> None:
        self._part_of = part_of
        self._weigh = weigh
        self._weigh_key = weigh_key
        # The weight of all records.
        self.weight = self.key_weight = 0
        # How many keys have records, by part.
        self.parts = Counter[Hashable]()
        self._by_key: dict[K, dict[int, PendingRecord[K, V]]] = {}
        self._keys: dict[int, dict[K, None]] = {}
        # The keys of which open transactions have records.
        self.keys: KeysView[K] = self._by_key.keys()

    def __iter__(self) -> Iterator[PendingRecord[K, V]]:
        """In the order of the log."""
        return iter(
            sorted(record for records in self._by_key.values() for record in records.values())
        )

    def __contains__(self, key: object) -> bool:
        """Whether an open transaction has a record of this key."""
        return key in self._by_key

    def has(self, producer_id: int, key: K) -> bool:
        """Whether the producer's transaction has a record of this key."""
        return key in self._keys.get(producer_id, ())

    def count_of(self, producer_id: int) -> int:
        """How many keys the producer's transaction has records of."""
        return len(self._keys.get(producer_id, ()))

    def last(self, key: K) -> V:
        """The newest record of a key that is here."""
        return max(self._by_key[key].values(), key=lambda record: record.offset).value

    def add(self, offset: Offset, producer: Producer, key: K, value: V) -> None:
        """Takes over the next record of a transaction."""
        records = self._by_key.get(key)
        if records is None:
            records = self._by_key[key] = {}
            self.parts[self._part_of(key)] += 1
        before = records.get(producer.id)
        weight, key_weight = self._weigh(value), self._weigh_key(key)
        self.weight += weight - (0 if before is None else before.weight)
        self.key_weight += key_weight - (0 if before is None else before.key_weight)
        records[producer.id] = PendingRecord(offset, producer, key, value, weight, key_weight)
        self._keys.setdefault(producer.id, {})[key] = None

    def supersede(self, key: K, offset: int) -> None:
        """A record of `key` at `offset` counts: older ones will not, however their transactions end."""
        pending = self._by_key.get(key)
        if pending is None:
            return
        for producer_id in [p for p, record in pending.items() if record.offset < offset]:
            del self._keys[producer_id][key]
            self._remove(key, producer_id)

    def end(self, producer_id: int, is_commit: bool) -> list[PendingRecord[K, V]]:
        """Ends the producer's transaction; the records that now count, in the order of the log."""
        keys = self._keys.pop(producer_id, {})
        records = sorted(self._remove(key, producer_id) for key in keys)
        if not is_commit:
            return []
        for record in records:
            if record.key in self._by_key:
                self.supersede(record.key, record.offset)
        return records

    def _remove(self, key: K, producer_id: int) -> PendingRecord[K, V]:
        pending = self._by_key[key]
        record = pending.pop(producer_id)
        self.weight -= record.weight
        self.key_weight -= record.key_weight
        if not pending:
            del self._by_key[key]
            part = self._part_of(key)
            self.parts[part] -= 1
            if not self.parts[part]:
                del self.parts[part]
        return record
