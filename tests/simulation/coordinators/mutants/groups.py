"""Bugs of the group coordinator: generations and epochs, owners, offsets in and out of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from itertools import islice
from typing import Any
from unittest import mock

from trimaran.broker.groups.classic import offsets, rebalance, syncing
from trimaran.broker.groups.classic.group import ClassicGroup
from trimaran.broker.groups.classic.operation import GroupOperation
from trimaran.broker.groups.consumer import migration, reconciliation
from trimaran.broker.groups.consumer import offsets as consumer_offsets
from trimaran.broker.groups.shard import GroupCoordinatorShard
from trimaran.broker.groups.store import GroupStore
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.broker.transactions.marking import Marking
from trimaran.log.producers.marker import EndMarker
from trimaran.wire.errors import ErrorCode, KafkaError

Patch = AbstractContextManager[Any]


def _old_generations_commit() -> Patch:
    real = offsets.check_commit

    def check(group: Any, request: Any, version: int, exists: bool) -> None:
        if group is not None and request.generation_id_or_member_epoch >= 0:
            request.generation_id_or_member_epoch = group.generation
        real(group, request, version, exists)

    return mock.patch.object(offsets, "check_commit", check)


def _old_generations_commit_in_transactions() -> Patch:
    return mock.patch.object(offsets, "check_transactional_commit", return_value=None)


def _old_epochs_commit() -> Patch:
    real = consumer_offsets.check_commit_request
    return mock.patch.object(
        consumer_offsets,
        "check_commit_request",
        lambda group, request, version: _lenient(real, group, request, version),
    )


def _old_epochs_commit_in_transactions() -> Patch:
    real = consumer_offsets.check_transactional_commit
    return mock.patch.object(
        consumer_offsets,
        "check_transactional_commit",
        lambda group, request, version: _lenient(real, group, request, version),
    )


def _lenient(check: Any, *arguments: Any) -> Any:
    with suppress(KafkaError):
        check(*arguments)
    return consumer_offsets.all_may


def _heartbeats_of_old_generations() -> Patch:
    real = syncing.heartbeat

    def heartbeat(operation: Any, request: Any) -> ErrorCode:
        request.generation_id = operation.group.generation
        return real(operation, request)

    return mock.patch.object(syncing, "heartbeat", heartbeat)


def _syncs_of_old_generations() -> Patch:
    real = syncing._check_sync

    def check(group: ClassicGroup, request: Any) -> Any:
        request.generation_id = group.generation
        return real(group, request)

    return mock.patch.object(syncing, "_check_sync", check)


def _generations_do_not_count() -> Patch:
    real = ClassicGroup.begin_generation

    def begin(self: ClassicGroup, now_ms: int) -> None:
        real(self, now_ms)
        self.generation = max(1, self.generation - 1)

    return mock.patch.object(ClassicGroup, "begin_generation", begin)


def _assignments_before_they_are_written() -> Patch:
    real = syncing._store_assignment

    def store(operation: Any, assignments: Any) -> None:
        real(operation, assignments)
        rebalance.assign(operation, assignments)

    return mock.patch.object(syncing, "_store_assignment", store)


def _old_assignments_are_returned() -> Patch:
    """The stored assignment of one generation is sent in the next."""
    real = rebalance.committed

    def committed(operation: Any, write: Any) -> None:
        real(operation, write._replace() if hasattr(write, "_replace") else write)

    def begin(self: ClassicGroup, now_ms: int) -> None:
        before = {member.id: member.assignment for member in self.members.values()}
        real_begin(self, now_ms)
        for member in self.members.values():
            member.assignment = before[member.id]

    def sync(operation: Any, request: Any, token: Any) -> None:
        member = operation.group.members.get(request.member_id)
        if member is not None and member.assignment and member.id != operation.group.leader:
            operation.respond(token, rebalance.synced(operation.group, member))
            return
        real_sync(operation, request, token)

    real_begin, real_sync = ClassicGroup.begin_generation, syncing.sync
    stack = mock.patch.multiple(syncing, sync=sync)
    return _both(
        stack,
        mock.patch.object(ClassicGroup, "begin_generation", begin),
        mock.patch.object(rebalance, "committed", committed),
    )


def _loaded_assignments_are_told_at_once() -> Patch:
    """Loaded assignments are returned at once, replicated or not, as in Kafka."""

    def respond(self: GroupOperation, token: Any, response: Any, _refused: Any) -> None:
        self.respond(token, response)

    return mock.patch.object(GroupOperation, "respond_committed", respond)


def _both(*patches: AbstractContextManager[Any]) -> Patch:
    from tests.simulation.mutants.mutant import both

    return both(*patches)


def _static_members_are_not_fenced() -> Patch:
    """KIP-345: a static member is accepted although another incarnation has its name."""

    def check(self: ClassicGroup, member_id: str, instance_id: str | None) -> Any:
        if instance_id is not None and instance_id in self.instances:
            member_id = self.instances[instance_id]
        return real(self, member_id, instance_id)

    real = ClassicGroup.check_member
    return mock.patch.object(ClassicGroup, "check_member", check)


def _owned_partitions_are_assigned_again() -> Patch:
    real = reconciliation._Step._available

    def available(self: reconciliation._Step, kept: Any) -> Any:
        with mock.patch.object(self, "_owners", {}):
            return real(self, kept)

    return mock.patch.object(reconciliation._Step, "_available", available)


def _revoked_at_once() -> Patch:
    """Partitions are reassigned before a member has revoked them."""
    return mock.patch.object(reconciliation._Step, "still_owns", return_value=False)


def _pending_offsets_count() -> Patch:
    real = GroupStore.replay

    def replay(self: GroupStore, offset: int, record: Any, _producer: Any = None) -> None:
        real(self, offset, record, None)

    return mock.patch.object(GroupStore, "replay", replay)


def _offsets_of_aborted_transactions_count() -> Patch:
    real = GroupStore.complete_transaction

    def complete(self: GroupStore, producer: Any, _is_commit: bool) -> None:
        real(self, producer, True)

    return mock.patch.object(GroupStore, "complete_transaction", complete)


def _offsets_of_transactions_are_lost() -> Patch:
    real = GroupStore.complete_transaction

    def complete(self: GroupStore, producer: Any, _is_commit: bool) -> None:
        real(self, producer, False)

    return mock.patch.object(GroupStore, "complete_transaction", complete)


def _unstable_offsets_are_returned() -> Patch:
    real = GroupCoordinatorShard.fetch_offsets

    def fetch(self: GroupCoordinatorShard, request: Any, **_options: Any) -> Any:
        return real(self, request)

    return mock.patch.object(GroupCoordinatorShard, "fetch_offsets", fetch)


def _shard_ignores_markers() -> Patch:
    """The log has the marker, but the coordinator ignores it."""

    def append(self: Marking, _key: Any, marker: Any, leader: Any) -> Any:
        return append_end_marker(
            leader,
            EndMarker(marker.transaction_result, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_version=marker.transaction_version,
            now_ms=self.now_ms(),
        )

    return mock.patch.object(Marking, "_append", append)


def _offsets_expire_at_once() -> Patch:
    """KAFKA-8069: offsets expire as soon as a shard is loaded."""
    real = GroupCoordinatorShard.loaded

    def loaded(self: GroupCoordinatorShard, at: Any) -> None:
        real(self, at)
        self.store.offsets.clear()

    return mock.patch.object(GroupCoordinatorShard, "loaded", loaded)


def _upgraded_groups_stay_classic() -> Patch:
    """Loading produces two groups with the same name."""
    real = migration._upgraded

    def upgraded(*arguments: Any) -> Iterator[Any]:
        return islice(real(*arguments), 1, None)

    return mock.patch.object(migration, "_upgraded", upgraded)


def _downgraded_groups_stay_consumer() -> Patch:
    return mock.patch.object(migration, "group_tombstones", return_value=())


def _upgraded_members_own_nothing() -> Patch:
    """The first member to join gets partitions that others still read."""
    real = migration._consumer_member

    def member(*arguments: Any) -> Any:
        return replace(real(*arguments), assigned={})

    return mock.patch.object(migration, "_consumer_member", member)


def _upgrade_restarts_the_epochs() -> Patch:
    real = migration.epoch_record
    return mock.patch.object(
        migration, "epoch_record", lambda group, _epoch, hash_: real(group, 0, hash_)
    )


def _downgrade_restarts_the_generations() -> Patch:
    real = migration._classic_record

    def record(operation: Any) -> Any:
        found = real(operation)
        found.value.generation = 0
        return found

    return mock.patch.object(migration, "_classic_record", record)


_CLASSIC, _CONSUMER = {"consumer_protocol": False}, {"consumer_protocol": True}
_CALM = {
    "crash_every": 0.0,
    "partition_every": 0.0,
    "isolate_every": 0.0,
    "stop_every": 0.0,
    "slow_every": 0.0,
    "slow_flush": 0.0,
    "delay_max": 0.02,
    "balance_every": 0.0,
}
_FREEZES = {
    "freeze": 0.4,
    "transformers": 3,
    "inputs": 3,
    "transaction_ms": 2500,
    "rivals": False,
    **_CALM,
    "committers": 2,
    "static": False,
}
_STATIC = {**_FREEZES, "static": True}
_MOVES = {"balance_every": 0.15, "partition_every": 0.0, "isolate_every": 0.0}
_MEMBERS = {"transformers": 3, "inputs": 3, "committers": 2, "freeze": 0.2}
_MIGRATES = {**_CALM, "migrants": 3, "inputs": 3, "transformers": 1}
_OPEN = {"delay_max": 0.1, "transformers": 2}
FENCING = ("answer", "G1", "G2", "G3", "T10", "L1", "AssertionError")
STATE = ("G3", "G4", "T10", "T1", "L1")
GROUPS: tuple[tuple[str, Any, tuple[str, ...], dict[str, Any]], ...] = (
    ("old generations commit", _old_generations_commit, FENCING, {**_STATIC, **_CLASSIC}),
    (
        *("old generations commit in transactions", _old_generations_commit_in_transactions),
        *(FENCING, {**_FREEZES, **_CLASSIC}),
    ),
    ("old epochs commit", _old_epochs_commit, FENCING, {**_FREEZES, **_CLASSIC}),
    (
        *("old epochs commit in transactions", _old_epochs_commit_in_transactions),
        *(FENCING, {**_FREEZES, **_CONSUMER}),
    ),
    (
        "heartbeats of old generations",
        _heartbeats_of_old_generations,
        FENCING,
        {**_STATIC, **_CLASSIC},
    ),
    ("syncs of old generations", _syncs_of_old_generations, FENCING, {**_STATIC, **_CLASSIC}),
    ("generations do not count", _generations_do_not_count, FENCING, {**_MEMBERS, **_CLASSIC}),
    (
        *("assignments before they are written", _assignments_before_they_are_written),
        *(FENCING, {**_MEMBERS, **_CLASSIC}),
    ),
    (
        "old assignments are returned",
        _old_assignments_are_returned,
        FENCING,
        {**_MEMBERS, **_CLASSIC},
    ),
    (
        *("loaded assignments are told at once", _loaded_assignments_are_told_at_once),
        *(FENCING, {**_MEMBERS, **_MOVES, **_CLASSIC, "delay_max": 0.4}),
    ),
    (
        *("static members are not fenced", _static_members_are_not_fenced),
        *(FENCING, {**_STATIC, **_CONSUMER, "rivals": True}),
    ),
    (
        "owned partitions are assigned again",
        _owned_partitions_are_assigned_again,
        FENCING,
        {**_MEMBERS, **_CONSUMER},
    ),
    ("revoked at once", _revoked_at_once, FENCING, {**_MEMBERS, **_CONSUMER}),
    ("pending offsets count", _pending_offsets_count, STATE, _OPEN),
    ("offsets of aborted transactions count", _offsets_of_aborted_transactions_count, STATE, _OPEN),
    ("offsets of transactions are lost", _offsets_of_transactions_are_lost, STATE, _OPEN),
    ("unstable offsets are returned", _unstable_offsets_are_returned, STATE, {**_FREEZES}),
    ("shard ignores markers", _shard_ignores_markers, STATE, {}),
    ("offsets expire at once", _offsets_expire_at_once, STATE, _MOVES),
    ("upgraded groups stay classic", _upgraded_groups_stay_classic, FENCING, _MIGRATES),
    ("downgraded groups stay consumer", _downgraded_groups_stay_consumer, FENCING, _MIGRATES),
    ("upgraded members own nothing", _upgraded_members_own_nothing, FENCING, _MIGRATES),
    ("upgrade restarts the epochs", _upgrade_restarts_the_epochs, FENCING, _MIGRATES),
    ("downgrade restarts the generations", _downgrade_restarts_the_generations, FENCING, _MIGRATES),
)
