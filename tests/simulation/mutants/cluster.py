"""Mutants of the controller: broker epochs (C3), leaders and in-sync replicas (C4), oversized requests (C5)."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any
from unittest import mock

from tests.simulation import controllers
from tests.simulation.mutants.mutant import Mutant, both
from trimaran.node.replicated.state_machine import Result
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.handlers import broker_heartbeat, broker_registration
from trimaran.quorum.controller.nodes import brokers
from trimaran.quorum.controller.nodes.leases import Leases
from trimaran.quorum.controller.partitions import alter_partition, broker_changes, topics
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.quorum.controller.tasks import upkeep
from trimaran.wire.errors import KafkaError

Patch = AbstractContextManager[Any]


# --- C3


def _registering_again_bumps_the_epoch() -> Patch:
    """KAFKA-16952."""
    real = brokers.register_broker

    def register(*given: Any, broker_epoch: int, **options: Any) -> Any:
        found = real(*given, broker_epoch=broker_epoch, **options)
        found.records[-1].broker_epoch = broker_epoch
        return found

    return mock.patch.object(broker_registration, "register_broker", register)


def _new_incarnation_keeps_the_epoch() -> Patch:
    real = brokers.register_broker

    def register(request: Any, state: ControllerState, *, broker_epoch: int, **options: Any) -> Any:
        known = state.image.cluster.brokers.get(request.broker_id)
        return real(request, state, broker_epoch=known.epoch if known else broker_epoch, **options)

    return mock.patch.object(broker_registration, "register_broker", register)


def _new_incarnation_begins_unfenced() -> Patch:
    real = brokers._registration_record

    def record(*given: Any) -> Any:
        found = real(*given)
        found.fenced = False
        return found

    return mock.patch.object(brokers, "_registration_record", record)


def _any_epoch_is_good() -> Patch:
    def lenient(image: Any, broker_id: int, _epoch: int) -> None:
        partitions_check(image, broker_id, image.cluster.brokers[broker_id].epoch)

    partitions_check = broker_changes.check_broker_epoch
    return both(
        *(
            mock.patch.object(module, "check_broker_epoch", lenient)
            for module in (broker_heartbeat, alter_partition)
        )
    )


def _answers_before_it_is_committed() -> Patch:
    """C2: the epoch of a registration is answered as soon as it is written."""
    return mock.patch("trimaran.node.replicated.pending.PendingResponse.wait", _at_once)


async def _at_once(self: Any) -> Any:
    return await self.decided()


# --- C4


def _fencing_forgets_the_isrs() -> Patch:
    def nothing(*_args: Any, **_options: Any) -> list[Any]:
        return []

    return both(
        mock.patch.object(brokers, "changes_without", nothing),
        mock.patch.object(upkeep, "changes_without", nothing),
        mock.patch.object(broker_changes, "changes_without", nothing),
    )


def _fenced_brokers_may_lead() -> Patch:
    return mock.patch.object(ControllerState, "may_lead", return_value=lambda broker: broker > 0)


def _nobody_is_elected_when_a_broker_returns() -> Patch:
    def nothing(*_args: Any, **_options: Any) -> list[Any]:
        return []

    return both(
        mock.patch.object(broker_heartbeat, "changes_with", nothing),
        mock.patch.object(upkeep, "changes_with", nothing),
        mock.patch.object(upkeep, "elect_unclean", nothing),
    )


def _leaders_add_fenced_replicas() -> Patch:
    """KIP-841: the ISR takes fenced replicas."""
    return mock.patch.object(alter_partition, "_is_eligible", return_value=True)


def _new_incarnation_stays_in_sync() -> Patch:
    """KAFKA-14139: an empty disk is still in the ISR."""
    return both(
        mock.patch.object(brokers, "changes_of_new_incarnation", return_value=[]),
        mock.patch.object(broker_registration, "partitions_of_old_incarnation", return_value=[]),
    )


def _silent_brokers_are_not_fenced() -> Patch:
    """Leases never expire and are not checked, so that a dead broker's partition waits forever."""
    return both(
        mock.patch.object(Leases, "expired", return_value=[]),
        mock.patch.object(Leases, "next_deadline", return_value=None),
        mock.patch.object(Leases, "disconnected_leases", return_value=[]),
    )


# --- C5


def _oversized_batch_ends_the_epoch() -> Patch:
    """KAFKA-14996."""
    real = ActiveController.write

    def write(self: ActiveController, result: Result[Any, Any]) -> Any:
        try:
            return (yield from real(self, result))
        except KafkaError:
            self._give_up()
            raise

    return mock.patch.object(ActiveController, "write", write)


def _no_request_is_too_large() -> Patch:
    return both(
        mock.patch.object(topics, "RECORDS_MAX", math.inf),
        mock.patch.object(controllers, "BATCH_BYTES_MAX", math.inf),
    )


def _half_of_an_oversized_batch_is_written() -> Patch:
    real = controllers.ControllerMember.propose

    def propose(self: Any, records: Any, epoch: int, batch: bytes | None = None) -> int:
        try:
            return real(self, records, epoch, batch)
        except KafkaError:
            real(self, records[:8], epoch)
            raise

    return mock.patch.object(controllers.ControllerMember, "propose", propose)


# All of these are hunted in runs with controllers.
CONTROLLERS = MappingProxyType({"controllers": True})

CLUSTER = (
    Mutant(
        "registering again bumps the epoch",
        _registering_again_bumps_the_epoch,
        ("C3",),
        CONTROLLERS,
    ),
    Mutant(
        "new incarnation keeps the epoch", _new_incarnation_keeps_the_epoch, ("C3",), CONTROLLERS
    ),
    Mutant(
        "new incarnation begins unfenced", _new_incarnation_begins_unfenced, ("C3",), CONTROLLERS
    ),
    Mutant("any broker epoch is good", _any_epoch_is_good, ("C3",), CONTROLLERS),
    Mutant("answers before it is committed", _answers_before_it_is_committed, ("C3",), CONTROLLERS),
    Mutant("fencing forgets the ISRs", _fencing_forgets_the_isrs, ("C4",), CONTROLLERS),
    Mutant("fenced brokers may lead", _fenced_brokers_may_lead, ("C4",), CONTROLLERS),
    Mutant(
        "nobody is elected on return",
        _nobody_is_elected_when_a_broker_returns,
        ("C4",),
        CONTROLLERS,
    ),
    Mutant("leaders add fenced replicas", _leaders_add_fenced_replicas, ("C4",), CONTROLLERS),
    Mutant("new incarnation stays in sync", _new_incarnation_stays_in_sync, ("C4",), CONTROLLERS),
    Mutant("silent brokers are not fenced", _silent_brokers_are_not_fenced, ("L1",), CONTROLLERS),
    Mutant("oversized batch ends the epoch", _oversized_batch_ends_the_epoch, ("C5",), CONTROLLERS),
    Mutant("no request is too large", _no_request_is_too_large, ("C5",), CONTROLLERS),
    Mutant(
        "half an oversized batch is written",
        _half_of_an_oversized_batch_is_written,
        ("C5", "C1", "C4"),
        CONTROLLERS,
    ),
)
