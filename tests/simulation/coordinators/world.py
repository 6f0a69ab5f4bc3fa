"""One seeded run of brokers with coordinators: first with faults, then without faults until everything has recovered.
In addition to `partitions.world`, the clock of records, random ids and jitter come from the world, so that a seed
determines its run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest import mock
from uuid import UUID

import trio

from tests.simulation.checker import Violation
from tests.simulation.coordinators.answers import Answers
from tests.simulation.coordinators.applications import (
    GROUP_ID,
    Committer,
    InputProducer,
    Observer,
    Reader,
    Transformer,
    Vanishing,
)
from tests.simulation.coordinators.broker import CoordinatorBroker
from tests.simulation.coordinators.controller import CoordinatorController
from tests.simulation.coordinators.migrant import Migrant
from tests.simulation.coordinators.rules import BRIEF_MS, INPUT, OUTPUT, Faults, Rules
from tests.simulation.here import patched_here
from tests.simulation.partitions.broker import SimBroker
from tests.simulation.partitions.checker import Key
from tests.simulation.partitions.controller import SimController
from tests.simulation.partitions.world import World
from tests.simulation.world import Result
from trimaran.broker import events
from trimaran.broker.coordination import effects, serving, shard_epoch, writing
from trimaran.broker.groups import coordinator
from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.handlers import consumer_group_heartbeat
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from trimaran.broker.transactions import rules as transaction_rules
from trimaran.broker.transactions import transaction
from trimaran.log.producers import state as producer_states


class CoordinatorWorld(World):
    checker: Answers
    rules: Rules
    rules_kind, faults_kind = Rules, Faults
    # The topics whose leaders move at an operator's request.
    moved_topics = (CONSUMER_OFFSETS, TRANSACTION_STATE, OUTPUT)
    # Abandoned transactions and members time out, and the remaining input is transformed.
    recovery_seconds = 15.0
    # Limit for idle fetches: every broker follows both others, with two connections each.
    fetches_per_second_max = 150

    def __init__(
        self, seed: int, *, emphasis: Mapping[str, Any] = MappingProxyType({}), **options: Any
    ) -> None:
        prng = random.Random(seed)
        drawn = {"rules": self.rules_kind.draw(prng), "faults": self.faults_kind.draw(prng)}
        super().__init__(seed, emphasis=emphasis, **{**drawn, **options})
        if self.rules.delete_retention_ms == BRIEF_MS and self.rules.compact_every:
            self.faults.cut_nobody_off()
            self.rules = replace(self.rules, slow_loads=min(self.rules.slow_loads, 0.01))

    def _new_checker(self) -> Answers:
        return Answers(self)

    def _new_controller(self) -> SimController:
        return CoordinatorController(self)

    def _new_broker(self, number: int) -> SimBroker:
        return CoordinatorBroker(self, number)

    def _patches(self) -> Sequence[AbstractContextManager[object]]:
        epoch_max = self.rules.epoch_max
        return (
            *super()._patches(),
            mock.patch.object(producer_states, "EPOCH_MAX", epoch_max),
            mock.patch.object(transaction_rules, "EPOCH_MAX", epoch_max),
            mock.patch.object(transaction_rules, "PRODUCER_EPOCH_MAX", epoch_max - 1),
            mock.patch.object(transaction, "PRODUCER_EPOCH_MAX", epoch_max - 1),
            patched_here(writing, "now_ms", self.now_ms),
            patched_here(effects, "now_ms", self.now_ms),
            patched_here(serving, "now_ms", self.now_ms),
            patched_here(coordinator, "uuid4", self._uuid),
            patched_here(consumer_group_heartbeat, "uuid4", self._uuid),
            patched_here(random, "random", self.prng.random),
            patched_here(shard_epoch.log, "exception", self._shard_failed),
            patched_here(
                events, "GROUP_WRITE_FAILED", SimpleNamespace(log=self._group_not_written)
            ),
            patched_here(
                events, "COMPACTION_STOPPED", SimpleNamespace(log=self._compaction_stopped)
            ),
        )

    def _compaction_stopped(self, _log: object, **why: object) -> None:
        if "do not fit into the offset map" in str(why["error"]):
            self.happened["map too small"] += 1
            return
        if "KAFKA_STORAGE_ERROR" in str(why["error"]):
            return  # the broker's disk has failed, which ends the broker
        raise Violation(f"L1 compaction stopped: {why}")

    def _group_not_written(self, _log: object, *, group: ClassicGroup, **_why: object) -> None:
        if group.state is GroupState.EMPTY:
            self.checker.offsets.could_not_write_empty(group.id, group.generation)

    def _shard_failed(self, text: str, epoch: object) -> None:
        raise Violation("L1 " + text % epoch)

    def _uuid(self) -> UUID:
        return UUID(int=self.prng.getrandbits(128))

    async def _in_thread(self, work: Any, *arguments: Any, **options: Any) -> Any:
        """Runs work that a thread would do, after a random delay, as for a slow load of a shard."""
        if self.rules.slow_loads and not self.is_calm:
            await trio.sleep(self.prng.uniform(0, self.rules.slow_loads))
        return await super()._in_thread(work, *arguments, **options)

    # --- topics and clients

    @property
    def input_keys(self) -> list[Key]:
        return self._keys_of(INPUT)

    @property
    def output_keys(self) -> list[Key]:
        return self._keys_of(OUTPUT)

    def _keys_of(self, name: str) -> list[Key]:
        topic = self.controller.image.topics.by_name[name]
        return [(topic.id, index) for index in sorted(topic.partitions)]

    def _create(self) -> None:
        active = [
            broker.id for broker in self.controller.image.cluster.brokers.values() if broker.active
        ]
        if len(active) < self.rules.factor:
            self.after(0.1, self._create)
            return
        for number, (name, count) in enumerate(self._topics().items(), 1):
            members = [self.prng.sample(active, self.rules.factor) for _ in range(count)]
            self.controller.create_topic(name, bytes([9]) + number.to_bytes(15, "big"), members)

    def _topics(self) -> dict[str, int]:
        """Returns the number of partitions of each topic."""
        rules = self.rules
        return {
            CONSUMER_OFFSETS: rules.shards,
            TRANSACTION_STATE: rules.shards,
            INPUT: rules.inputs,
            OUTPUT: rules.outputs,
        }

    def _balance(self) -> None:
        """Makes another replica of a partition (perhaps that of a shard) the preferred one, and then moves leaders to
        preferred replicas, as an operator does.
        """
        keys = self._keys_of(self.prng.choice(self.moved_topics))
        key = self.prng.choice(keys)
        state = self.state_of(key)
        assert state is not None
        if not state.adding and not state.removing:
            replicas = [*state.replicas[1:], state.replicas[0]]
            self.controller.reassign(self.name_of(key), key[1], replicas)
        super()._balance()

    def _clients(self) -> Sequence[Any]:
        rules = self.rules
        ids = [f"t{number}" for number in range(rules.transformers)]
        if rules.rivals:
            ids.append(ids[0])
        return [
            InputProducer(self, "input"),
            *(Transformer(self, number, id_) for number, id_ in enumerate(ids)),
            *(Committer(self, number) for number in range(2 * rules.committers)),
            *(Vanishing(self, f"vanishing{n}", "v") for n in range(1 + rules.rivals)),
            *(Migrant(self, number) for number in range(rules.migrants)),
            Observer(self, "observer"),
            Reader(self, "reader"),
        ]

    # --- the end

    def _is_quiet(self) -> bool:
        """Whether all input is transformed, every transaction has ended, and all replicas are complete."""
        return not self._left() and super()._is_quiet()

    def _left(self) -> list[str]:
        checker = self.checker
        if checker.is_void:
            return []
        left = checker.transactions.unfinished()
        for key in self.input_keys:
            history = checker.histories[key]
            value = checker.offsets.value((GROUP_ID, INPUT, key[1]))
            if max(0, value.offset) < history.end:
                left.append(f"input {key[1]} is transformed to {value}, not {history.end}")
        left += [
            f"T3 {place} has open transactions: {found}"
            for place, found in checker.transactions.open.items()
            if found
        ]
        return left

    def _states(self) -> str:
        return "; ".join([*self._left(), super()._states()])

    async def _check_liveness(self) -> None:
        await super()._check_liveness()
        checker = self.checker
        checker.outcomes.check_complete()
        if checker.is_void:
            return
        for key in self.input_keys:
            history = checker.histories[key]
            for entry in history.committed:
                for offset in range(entry.base, entry.last + 1):
                    what = b"%d:%d" % (key[1], offset)
                    checker.rule(
                        checker.outcomes.visible[what] == 1, "T10", what, "is not in the output"
                    )


def run_seed(seed: int, **options: Any) -> Result:
    """Runs one seed.

    Raises:
        Violation: with the seed in a note.
    """
    try:
        return CoordinatorWorld(seed, **options).run()
    except Exception as error:
        error.add_note(f"seed {seed}: ./dev simulate --coordinators --seed {seed}")
        raise
