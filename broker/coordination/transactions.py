"""Records of transactions that are still open, by producer.

A record of a committed transaction counts like a plain record at its own offset: later records of its key override it.
Source: `OffsetMetadataManager.replayEndTransactionMarker` of Kafka (KIP-98).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, KeysView
from typing import Generic, NamedTuple, TypeVar

from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.identity import Offset, ProducerId

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PendingRecord(NamedTuple, Generic[K, V]):
    """A record of an open transaction, its position in the log, and the weights of its value and key."""

    offset: Offset
    producer: Producer
    key: K
    value: V
    weight: int
    key_weight: int


class PendingTransaction(Generic[K]):
    """A transaction with records: their keys in log order, and the parts of all keys that it has had."""

    __slots__ = ("keys", "parts")

    def __init__(self) -> None:
        self.keys: dict[K, None] = {}
        self.parts: set[Hashable] = set()


class PendingTransactions(Generic[K, V]):
    """The last record for each transaction and key; bounded by the records of open transactions in the log. A
    transaction is open until `end` or `ending`.

    `part_of` returns the part of a key, by which `parts` counts keys. `weigh` returns what a value adds to `weight`,
    `weigh_key` what a key adds to `key_weight`.
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
        # The total weight of all values, and of their keys.
        self.weight = self.key_weight = 0
        # The number of keys with records, by part.
        self.parts = Counter[Hashable]()
        self._by_key: dict[K, dict[PendingTransaction[K], PendingRecord[K, V]]] = {}
        self._open: dict[ProducerId, PendingTransaction[K]] = {}
        # The keys that have records of open transactions.
        self.keys: KeysView[K] = self._by_key.keys()

    def __iter__(self) -> Iterator[PendingRecord[K, V]]:
        """Iterates over the records in log order."""
        return iter(
            sorted(record for records in self._by_key.values() for record in records.values())
        )

    def __contains__(self, key: object) -> bool:
        """Whether an open transaction has a record of this key."""
        return key in self._by_key

    def has(self, producer_id: ProducerId, key: K) -> bool:
        """Whether the producer's transaction has a record of this key."""
        transaction = self._open.get(producer_id)
        return transaction is not None and key in transaction.keys

    def last(self, key: K) -> V:
        """Returns the newest pending value of `key`, which must have one."""
        return max(self._by_key[key].values(), key=lambda record: record.offset).value

    def add(self, offset: Offset, producer: Producer, key: K, value: V) -> None:
        """Adds the next record of a transaction."""
        transaction = self._open.get(producer.id)
        if transaction is None:
            transaction = self._open[producer.id] = PendingTransaction()
        records = self._by_key.get(key)
        if records is None:
            records = self._by_key[key] = {}
            self.parts[self._part_of(key)] += 1
        before = records.get(transaction)
        weight, key_weight = self._weigh(value), self._weigh_key(key)
        self.weight += weight - (0 if before is None else before.weight)
        self.key_weight += key_weight - (0 if before is None else before.key_weight)
        records[transaction] = PendingRecord(offset, producer, key, value, weight, key_weight)
        transaction.parts.add(self._part_of(key))
        transaction.keys.pop(key, None)  # the keys stay in log order
        transaction.keys[key] = None

    def supersede(self, key: K, offset: Offset) -> None:
        """Drops older records of `key`, because a record at `offset` overrides them however their transactions end."""
        pending = self._by_key.get(key)
        if pending is None:
            return
        for transaction in [one for one, record in pending.items() if record.offset < offset]:
            self._remove(key, transaction)

    def end(self, producer_id: ProducerId, is_commit: bool) -> list[PendingRecord[K, V]]:
        """Ends the producer's transaction; returns the records that now count, in log order."""
        transaction = self.ending(producer_id)
        if transaction is None:
            return []
        records = list(self.take(transaction, is_commit))
        return records if is_commit else []

    def ending(self, producer_id: ProducerId) -> PendingTransaction[K] | None:
        """Ends the producer's transaction, if it has one. Its records stay until they are taken; the producer may begin
        the next one.
        """
        return self._open.pop(producer_id, None)

    def take(
        self, transaction: PendingTransaction[K], is_commit: bool
    ) -> Iterator[PendingRecord[K, V]]:
        """Removes the records of an ended transaction one by one, in log order, and yields each. Between two of them,
        records of its keys may be added or superseded.
        """
        for key in list(transaction.keys):
            if key not in transaction.keys:
                continue
            record = self._remove(key, transaction)
            if is_commit and key in self._by_key:
                self.supersede(key, record.offset)
            yield record

    def _remove(self, key: K, transaction: PendingTransaction[K]) -> PendingRecord[K, V]:
        del transaction.keys[key]
        pending = self._by_key[key]
        record = pending.pop(transaction)
        self.weight -= record.weight
        self.key_weight -= record.key_weight
        if not pending:
            del self._by_key[key]
            part = self._part_of(key)
            self.parts[part] -= 1
            if not self.parts[part]:
                del self.parts[part]
        return record
