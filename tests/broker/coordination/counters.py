"""A coordinator of counters, each of which is forgotten a minute after its last addition.

A coordinator consists of only a shard and handlers that use it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trimaran.broker.coordination.shard import Effects, Write
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.coordination.transactions import PendingTransactions
from trimaran.log.batches.records import NewRecord
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.wire.errors import ErrorCode, RemoteProtocolError

TOPIC = "__counters"
IDLE_MS = 60_000


class Count(NamedTuple):
    """The new value of a counter; None removes it."""

    name: str
    value: int | None


class CountSerde:
    """Encodes counts. Names that begin with a question mark belong to a future version."""

    def encode(self, record: Count, now_ms: int) -> NewRecord:
        value = None if record.value is None else b"%d" % record.value
        return NewRecord(record.name.encode(), value, now_ms)

    def decode(self, key: bytes, value: bytes | None) -> Count | None:
        if key.startswith(b"?"):
            return None
        if value is not None and not value.isdigit():
            raise RemoteProtocolError(f"no count: {value!r}")
        return Count(key.decode(), None if value is None else int(value))


class Forgotten(NamedTuple):
    """The write with which the shard removes an expired counter."""

    records: tuple[Count, ...]
    atomic: bool = True


class CounterShard:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.replayed: list[tuple[int, Count, Producer | None]] = []
        self.outcomes: list[ErrorCode] = []
        self._pending = PendingTransactions[str, Count]()
        self._timers = Timers[str]()
        self._waiting: dict[PendingResponse[Any], tuple[str, int]] = {}
        self._effects = Effects[Count]()

    # -- the shard's own requests

    def add(self, name: str, amount: int) -> Result[Count, int]:
        value = self.counts.get(name, 0) + amount
        return Result([Count(name, value)], value)

    def wait_for(self, name: str, value: int, token: PendingResponse[Any]) -> None:
        """Answers `token` when the count reaches this value."""
        self._waiting[token] = (name, value)
        self._tell()

    # -- called by the runtime

    def replay(self, offset: int, record: Count, producer: Producer | None = None) -> None:
        self.replayed.append((offset, record, producer))
        if producer is not None:
            self._pending.add(offset, producer, record.name, record)
            return
        self._pending.supersede(record.name, offset)
        self._apply(record)

    def complete_transaction(self, producer: Producer, is_commit: bool) -> None:
        for pending in self._pending.end(producer.id, is_commit):
            self._apply(pending.value)

    def finish_load(self) -> None:
        self.biggest_loaded = max(self.counts.values(), default=0)

    def loaded(self, at: Instant) -> None:
        for name in self.counts:
            self.touch(name, at)

    def deadline(self) -> float | None:
        return self._timers.earliest()

    def handle_timeout(self, at: Instant) -> None:
        while (name := self._timers.pop_due(at.now)) is not None:
            self._effects.writes.append(Forgotten((Count(name, None),)))

    def take(self) -> Effects[Count]:
        effects, self._effects = self._effects, Effects[Count]()
        return effects

    def written(self, write: Write[Count], code: ErrorCode, at: Instant) -> None:
        self.outcomes.append(code)

    def close(self, at: Instant) -> None:
        for token in self._waiting:
            self._effects.responses.append((token, ErrorCode.NOT_COORDINATOR))

    def unload(self) -> None:
        self.counts.clear()

    # -- rules

    def touch(self, name: str, at: Instant) -> None:
        self._timers.set(name, at.after_ms(IDLE_MS))

    def _apply(self, record: Count) -> None:
        if record.value is None:
            self.counts.pop(record.name, None)
        else:
            self.counts[record.name] = record.value
        self._tell()

    def _tell(self) -> None:
        for token, (name, value) in list(self._waiting.items()):
            if self.counts.get(name, 0) >= value:
                del self._waiting[token]
                self._effects.responses.append((token, self.counts[name]))
