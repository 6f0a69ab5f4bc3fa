"""One seeded run of brokers with share groups: first with faults, then without faults until every record is done."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation.coordinators.applications import InputProducer
from tests.simulation.coordinators.rules import INPUT
from tests.simulation.coordinators.world import CoordinatorWorld
from tests.simulation.partitions.broker import SimBroker
from tests.simulation.partitions.checker import Key
from tests.simulation.partitions.controller import SimController
from tests.simulation.partitions.world import World
from tests.simulation.shares.broker import ShareBroker
from tests.simulation.shares.checker import ShareChecker
from tests.simulation.shares.consumer import ShareConsumer
from tests.simulation.shares.controller import ShareController
from tests.simulation.shares.observing import observed
from tests.simulation.shares.operator import GroupOperator
from tests.simulation.shares.rules import (
    ALTERED,
    QUEUE,
    QUEUE_REFUSED,
    QUEUE_THERE,
    STEADY,
    Faults,
    Rules,
)
from tests.simulation.world import Result
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from trimaran.broker.share_state import persister
from trimaran.broker.sharing import dead_letters

PRODUCE_SECONDS = 0.06


class ShareInput(InputProducer):
    counts = (1, 1, 2, 3, 6)


class SharesWorld(CoordinatorWorld):
    checker: ShareChecker  # type: ignore[assignment]
    controller: ShareController
    rules: Rules
    rules_kind, faults_kind = Rules, Faults
    moved_topics = (CONSUMER_OFFSETS, SHARE_GROUP_STATE, SHARE_GROUP_STATE, INPUT, INPUT)

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.produce_seconds = PRODUCE_SECONDS

    def _new_checker(self) -> Any:
        return ShareChecker(self)

    def _new_controller(self) -> SimController:
        return ShareController(self)

    def _new_broker(self, number: int) -> SimBroker:
        return ShareBroker(self, number)

    def _patches(self) -> Sequence[AbstractContextManager[object]]:
        return (
            *super()._patches(),
            mock.patch.object(dead_letters, "RETRY_SECONDS", 0.1),
            mock.patch.object(dead_letters, "RETRY_SECONDS_MAX", 0.5),
            mock.patch.object(dead_letters, "ATTEMPTS_MAX", 40),
            mock.patch.object(persister, "ATTEMPTS_MAX", self.rules.attempts),
            *observed(self),
        )

    # --- topics and clients

    def _topics(self) -> dict[str, int]:
        rules = self.rules
        queues = {QUEUE: 2} if rules.queue in (QUEUE_THERE, QUEUE_REFUSED) else {}
        return {
            CONSUMER_OFFSETS: 1,
            SHARE_GROUP_STATE: rules.shards,
            INPUT: rules.inputs,
            **queues,
        }

    def _create(self) -> None:
        super()._create()
        if self.controller.image.topics.by_name:
            self.controller.configure_groups()

    def _delete_records(self) -> None:
        if self.input_keys:
            self._delete_records_of(self.prng.choice(self.input_keys))

    def _clients(self) -> Sequence[Any]:
        rules = self.rules
        steady = [ShareConsumer(self, f"member{n}", STEADY) for n in range(rules.members)]
        if not rules.alters:
            return [ShareInput(self, "input"), *steady]
        altered = [ShareConsumer(self, f"altered{n}", ALTERED) for n in range(2)]
        return [
            ShareInput(self, "input"),
            *steady,
            *altered,
            GroupOperator(self, altered),
        ]

    @property
    def _groups(self) -> tuple[str, ...]:
        return (STEADY, ALTERED) if self.rules.alters else (STEADY,)

    # --- the end

    def _used_keys(self) -> list[Key]:
        """Returns the partitions, except those of the queue to which nothing was written."""
        histories = self.checker.histories
        return [key for key in self.keys if self.name_of(key) != QUEUE or histories[key].written]

    def _left(self) -> list[str]:
        return [] if self.checker.is_void else self.checker.unfinished(self._groups)

    async def _check_liveness(self) -> None:
        await World._check_liveness(self)
        if not self.checker.is_void:
            self.checker.check_complete(self._groups)


def run_seed(seed: int, **options: Any) -> Result:
    """Runs one seed.

    Raises:
        Violation: with the seed in a note.
    """
    try:
        return SharesWorld(seed, **options).run()
    except Exception as error:
        error.add_note(f"seed {seed}: ./dev simulate --shares --seed {seed}")
        raise
