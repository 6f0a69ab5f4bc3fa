"""Looks after every event whether the rules of coordinators hold, beside those of partitions (docs/invariants.md).

It reads the internal topics itself: what leaders have appended, and what is committed. An answer of a broker is held
against that when it leaves. After an unclean election nothing is promised, so nothing is asked any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.simulation.coordinators.batches import Batch, read_batch
from tests.simulation.coordinators.offsets import Offsets
from tests.simulation.coordinators.outcomes import Outcomes
from tests.simulation.coordinators.transactions import Transactions
from tests.simulation.partitions.checker import Checker, Key
from tests.simulation.partitions.replica_logs import Entry, ReplicaLog

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker


class CoordinatorChecker(Checker):
    """`offsets` and `transactions` are what the logs say, `outcomes` what clients were told."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.outcomes = Outcomes(self.rule)
        self.transactions = Transactions(self.rule, self.outcomes, has_own_epochs=world.rules.bumps)
        self.offsets = Offsets(self.rule, self.outcomes, world.happened)
        self._batches: defaultdict[Key, dict[tuple[int, int], Batch]] = defaultdict(dict)
        self._appended: list[tuple[Key, Batch]] = []
        self._taken: Counter[Key] = Counter()
        self.is_void = False

    def rule(self, holds: bool, name: str, *why: object) -> None:
        if not self.is_void:
            self.require(holds, name, *why)

    def look(self) -> None:
        super().look()
        self._take_news()

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
        """What is committed first, the decisions last of all: so that what was appended is held against everything."""
        self.is_void = self.is_void or any(one.is_unclean for one in self.histories.values())
        if self.is_void:
            self._appended.clear()
            return
        keys = [key for key, one in self.histories.items() if len(one.committed) > self._taken[key]]
        for key in sorted(keys, key=lambda key: self.world.name_of(key) == TRANSACTION_STATE):
            for entry in self.histories[key].committed[self._taken[key] :]:
                self._committed(key, self._batches[key][entry.epoch, entry.base])
            self._taken[key] = len(self.histories[key].committed)
        appended, self._appended = self._appended, []
        for key, batch in appended:
            name = self.world.name_of(key)
            self.outcomes.appended((name, key[1]), batch)
            self.transactions.appended((name, key[1]), batch)
            if name == CONSUMER_OFFSETS:
                self.offsets.appended(batch)

    def _committed(self, key: Key, batch: Batch) -> None:
        name = self.world.name_of(key)
        self.world.say("committed:", name, key[1], batch)
        self.transactions.committed((name, key[1]), batch)
        if name == CONSUMER_OFFSETS:
            self.offsets.committed(batch)
