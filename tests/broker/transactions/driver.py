"""A shard of transactions with a log in memory and a manual clock; markers are written when the test permits it."""

from __future__ import annotations

from collections import deque

from trimaran.broker.coordination.timers import Instant
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.records import TransactionRecord, TransactionRecordSerde
from trimaran.broker.transactions.shard import TransactionCoordinatorShard
from trimaran.broker.transactions.transaction import Transaction
from trimaran.node.replicated.state_machine import Producer

WALL_CLOCK_MS = 1_700_000_000_000
ID = "x"


class Driver:
    """Encodes and decodes every record, so that `reload` loads what another broker would."""

    def __init__(self, limits: TransactionLimits | None = None, *, version: int = 2) -> None:
        self.limits = limits or TransactionLimits()
        self.serde = TransactionRecordSerde(lambda: version)
        self.now = 0.0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.follow_ups: deque[str] = deque()
        self.told: list[object] = []
        self.next_producer_id = 1000
        self.shard = self._loaded()

    @property
    def at(self) -> Instant:
        return Instant(self.now, WALL_CLOCK_MS + round(self.now * 1000))

    def _loaded(self) -> TransactionCoordinatorShard:
        shard = TransactionCoordinatorShard(self.limits)
        last = dict(self.log)
        for offset, (key, value) in enumerate(last.items()):
            record = self.serde.decode(key, value)
            assert record is not None
            shard.replay(offset, record)
        shard.finish_load()
        shard.loaded(self.at)
        return shard

    def reload(self) -> None:
        """Lets another broker take over."""
        self.shard.close(self.at)
        self.told += [token for token, _ in self.shard.take().responses]
        self.follow_ups.clear()
        self.shard = self._loaded()
        self.settle()

    def settle(self) -> None:
        are_written = True
        while are_written:
            effects = self.shard.take()
            self.follow_ups += effects.follow_ups
            self.told += [token for token, _ in effects.responses]
            for write in effects.writes:
                self.append(write.records)
            are_written = bool(effects.writes)

    def append(self, records) -> None:
        for record in records:
            encoded = self.serde.encode(record, 0)
            self.log.append((encoded.key, encoded.value))
            self.shard.replay(len(self.log) - 1, record)

    def submit(self, result):
        self.append(result.records)
        self.settle()
        return result.response

    def advance(self, seconds: float) -> None:
        """Lets time pass, waking the core only at its deadlines."""
        end = self.now + seconds
        while (deadline := self.shard.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.shard.handle_timeout(self.at)
            self.settle()
        self.now = end

    # -- requests

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def init(self, told: Producer | None = None, timeout_ms: int = 60_000) -> Transaction:
        decided = self.shard.init_producer(ID, told, timeout_ms, self.new_producer_id(), self.at)
        return self.submit(decided)

    def add(self, producer: Producer, *partitions: tuple[str, int], version: int = 2):
        return self.submit(self.shard.add_partitions(ID, producer, partitions, version, self.at))

    def verify(self, producer: Producer, *partitions: tuple[str, int]):
        return self.submit(self.shard.verify_partitions(ID, producer, partitions))

    def end(self, producer: Producer, *, is_commit: bool = True, version: int = 2) -> Transaction:
        new_id = self.new_producer_id()
        return self.submit(self.shard.end(ID, producer, is_commit, version, new_id, self.at))

    def write_markers(self) -> list[Transaction]:
        """Completes all follow-ups; returns their decisions."""
        done = []
        while self.follow_ups:
            name = self.follow_ups.popleft()
            decided = self.shard.decided(name)
            if decided is not None:
                done.append(decided)
                self.submit(self.shard.complete(name, decided, self.at))
        return done

    def write_markers_of(self, decided: Transaction) -> None:
        """Writes markers as a task that has worked on them for a long time."""
        self.submit(self.shard.complete(ID, decided, self.at))

    @property
    def transaction(self) -> Transaction | None:
        return self.shard.transactions.get(ID)

    def force(self, transaction: Transaction) -> None:
        """Sets the transaction's state directly."""
        self.append([TransactionRecord(ID, transaction)])
        self.settle()
