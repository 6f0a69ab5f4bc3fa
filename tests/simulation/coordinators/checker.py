"""Checks the rules of coordinators after every event, in addition to those of partitions (docs/invariants.md). It reads
the internal topics itself: the batches that leaders have appended, and those that are committed. A broker's response is
compared with them when it is sent. Records removed by compaction are put back when a log is read, and a rule must allow
that they are missing. After an unclean election nothing is promised, so checking stops.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from tests.simulation.coordinators.batches import Batch, read_batch
from tests.simulation.coordinators.compacted import Compacted, Left
from tests.simulation.coordinators.offsets import Offsets
from tests.simulation.coordinators.outcomes import Outcomes
from tests.simulation.coordinators.transactions import Transactions
from tests.simulation.partitions.checker import Checker, Key
from tests.simulation.partitions.replica_logs import Entry, ReplicaLog
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker

INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE)


class CoordinatorChecker(Checker):
    """A checker with the content of the logs (`offsets`, `transactions`) and the responses to clients (`outcomes`)."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.outcomes = Outcomes(self.rule)
        self.transactions = Transactions(self.rule, self.outcomes, has_own_epochs=world.rules.bumps)
        self.offsets = Offsets(self.rule, self.outcomes, world.happened)
        self._batches: defaultdict[Key, dict[tuple[int, int], Batch]] = defaultdict(dict)
        self._appended: list[tuple[Key, Batch]] = []
        self._taken: Counter[Key] = Counter()
        self._compacted: dict[Key, Compacted] = {}
        self._put_back: set[Entry] = set()
        self.is_void = False

    def rule(self, holds: bool, name: str, *why: object) -> None:
        if not self.is_void:
            self.require(holds, name, *why)

    def look(self) -> None:
        super().look()
        self._take_news()

    # --- compaction

    def made(self, key: Key) -> None:
        super().made(key)
        if self.world.rules.compact_every and self.world.name_of(key) in INTERNAL:
            self._compacted[key] = Compacted(self.rule, self.world.rules.delete_retention_ms)

    def compacted(self, broker: SimBroker) -> None:
        """Checks after a round of compaction that the broker still has everything that it must have."""
        self.look()
        for key in self._compacted:
            replica = self.replicas.get((broker.id, key))
            if replica is not None and replica.log is not None:
                found = self._entries(broker, key, replica.log, replica.log.log_start_offset)
                self.rule(found == replica.entries, "P18", broker.id, key, "is another log")

    def _entries(self, broker: SimBroker, key: Key, log: Any, start: int) -> list[Entry]:
        found = super()._entries(broker, key, log, start)
        self._put_back.clear()
        if key not in self._compacted:
            return found
        history, batches = self.histories[key], self._batches[key]
        whole: list[Entry] = []
        left: list[Left] = []
        for entry in found:
            gone = _between(history.committed, start, entry.base)
            self._put_back |= set(gone)
            left += [Left(batches[removed.epoch, removed.base], None) for removed in gone]
            written, _ = history.written.get((entry.epoch, entry.base), (entry, None))
            if (batch := batches.get((entry.epoch, entry.base))) is not None:
                left.append(Left(batch, batch if written == entry else read_batch(log, entry.base)))
            whole += [*gone, written]
            start = entry.last + 1
        self._compacted[key].check(broker.id, left, self.world.now_ms())
        return whole

    def _check_epoch(self, broker: SimBroker, entry: Entry, log: Any) -> None:
        """Checks an entry's epoch, except for a removed batch: a copy of a compacted log does not show an epoch without
        batches.
        """
        if entry not in self._put_back:
            super()._check_epoch(broker, entry, log)

    def agree(self) -> None:
        super().agree()
        if not self.is_void:
            for (broker_id, key), replica in self.replicas.items():
                if key in self._compacted and replica.log is not None:
                    self._know_producers(broker_id, key, replica)

    def _know_producers(self, broker_id: int, key: Key, replica: ReplicaLog) -> None:
        """Checks I3: a replica knows as much about its producers from the compacted log as from the whole log."""
        epochs: dict[int, int] = {}
        begun: dict[int, int] = {}
        for entry in replica.entries:
            batch = self._batches[key][entry.epoch, entry.base]
            if batch.producer_id >= 0:
                epochs[batch.producer_id] = batch.producer_epoch
                if batch.marker is not None:
                    begun.pop(batch.producer_id, None)
                elif batch.is_transactional:
                    begun.setdefault(batch.producer_id, batch.base)
        replica.log._producers.truncate(-1)
        found = dict(replica.log.producers.entries())
        self.rule(
            {number: value.epoch for number, value in found.items()} == epochs,
            *("I3", broker_id, key, "knows", found, "not", epochs),
        )
        started = {n: e.transaction_start for n, e in found.items() if e.transaction_start >= 0}
        self.rule(started == begun, "I3", broker_id, key, "has open", started, "not", begun)

    # --- new batches

    def _add(
        self, broker: SimBroker, replica: ReplicaLog, key: Key, log: Any, new: list[Entry]
    ) -> None:
        known = self._batches[key]
        for entry in new:
            if (entry.epoch, entry.base) not in known:
                batch = known[entry.epoch, entry.base] = read_batch(log, entry.base)
                self._appended.append((key, batch))
        super()._add(broker, replica, key, log, new)

    def _take_news(self) -> None:
        """Processes new batches: committed ones before appended ones, and decisions last, so that appends are compared
        with everything.
        """
        self.is_void = self.is_void or any(
            history.is_unclean for history in self.histories.values()
        )
        if self.is_void:
            self._appended.clear()
            return
        keys = [
            key
            for key, history in self.histories.items()
            if len(history.committed) > self._taken[key]
        ]
        for key in sorted(keys, key=lambda key: self.world.name_of(key) == TRANSACTION_STATE):
            for entry in self.histories[key].committed[self._taken[key] :]:
                self._committed(key, self._batches[key][entry.epoch, entry.base])
            self._taken[key] = len(self.histories[key].committed)
        appended, self._appended = self._appended, []
        for key, batch in appended:
            self._was_appended(key, batch)

    def _was_appended(self, key: Key, batch: Batch) -> None:
        name = self.world.name_of(key)
        self.outcomes.appended((name, key[1]), batch)
        self.transactions.appended((name, key[1]), batch)
        if name == CONSUMER_OFFSETS:
            self.offsets.appended(batch)

    def _committed(self, key: Key, batch: Batch) -> None:
        name = self.world.name_of(key)
        self.world.say("committed:", name, key[1], batch)
        if key in self._compacted:
            self._compacted[key].committed(batch, self.world.now_ms())
        self.transactions.committed((name, key[1]), batch)
        if name == CONSUMER_OFFSETS:
            self.offsets.committed(batch)


def _between(committed: list[Entry], start: int, end: int) -> list[Entry]:
    low = bisect_left(committed, start, key=lambda entry: entry.base)
    high = bisect_left(committed, end, key=lambda entry: entry.base)
    return committed[low:high]
