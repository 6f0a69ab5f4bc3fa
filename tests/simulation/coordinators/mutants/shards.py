"""Bugs of the runtime that both coordinators share: loading, serving, responding, closing."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from trimaran.broker.coordination import loader, shard_epoch
from trimaran.broker.coordination.effects import EffectRunner
from trimaran.broker.coordination.loader import CoordinatorLoader
from trimaran.broker.coordination.runtime import CoordinatorRuntime
from trimaran.broker.coordination.serving import ServingShard
from trimaran.broker.coordination.shard_epoch import ShardEpoch
from trimaran.broker.coordination.transactions import PendingTransactions
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Result

Patch = AbstractContextManager[Any]


def _load_stops_before_the_end() -> Patch:
    real = CoordinatorLoader.replay_into

    def replay(self: Any, *given: Any) -> None:
        if self._last:
            del self._last[max(self._last, key=lambda place: self._last[place][0])]
        real(self, *given)

    return mock.patch.object(CoordinatorLoader, "replay_into", replay)


def _the_first_record_counts() -> Patch:
    """On loading, the first record of a key counts instead of the last."""
    real = CoordinatorLoader._take

    def take(self: Any, batch: Any) -> None:
        before = dict(self._last)
        real(self, batch)
        self._last.update(before)

    return mock.patch.object(CoordinatorLoader, "_take", take)


def _every_marker_is(is_commit: bool) -> Patch:
    real = loader.read_end_marker

    def read(batch: Any) -> Any:
        marker = real(batch)
        return marker and marker._replace(is_commit=is_commit)

    return mock.patch.object(loader, "read_end_marker", read)


def _aborted_records_are_loaded() -> Patch:
    return _every_marker_is(True)


def _committed_records_are_not_loaded() -> Patch:
    """Redpanda #6019: everything written in transactions is lost."""
    return _every_marker_is(False)


def _open_transactions_are_not_loaded() -> Patch:
    real = CoordinatorLoader.replay_into

    def replay(self: Any, *given: Any) -> None:
        self._pending = PendingTransactions()
        real(self, *given)

    return mock.patch.object(CoordinatorLoader, "replay_into", replay)


def _serves_before_it_has_loaded() -> Patch:
    async def load(self: Any, nursery: Any) -> None:
        self._serve(self._spec.make_shard(), self._leader.log.log_end_offset, nursery)

    return mock.patch.object(ShardEpoch, "_load", load)


def _answers_what_is_not_committed() -> Patch:
    async def wait(self: Any) -> Any:
        return await self.decided()

    return mock.patch.object(PendingResponse, "wait", wait)


def _reads_what_is_not_committed() -> Patch:
    real = ServingShard.submit

    def submit(self: Any, result: Result[Any, Any]) -> Any:
        made: Any = real(self, result)
        if not result.records:
            made._end_offset = 0
        return made

    return mock.patch.object(ServingShard, "submit", submit)


def _writes_are_done_at_once() -> Patch:
    """A shard's own write counts before it is committed."""
    real = EffectRunner._store

    def store(self: Any, write: Any) -> None:
        real(self, write)
        self._uncommitted = type(self._uncommitted)(
            item._replace(end_offset=0) for item in self._uncommitted
        )

    return mock.patch.object(EffectRunner, "_store", store)


def _old_coordinators_stay() -> Patch:
    """The end of a leader epoch is not noticed."""
    return mock.patch.object(CoordinatorRuntime, "ended", return_value=None)


def _new_epochs_keep_the_old_shard() -> Patch:
    """A returning leader continues with its old state."""
    kept: dict[tuple[int, str], tuple[Any, Any]] = {}
    real = shard_epoch.load_shard

    async def load(spec: Any, name: str, *arguments: Any) -> Any:
        loaded, end_offset = await real(spec, name, *arguments)
        # The spec stays referenced, so that its identity is unique.
        _, shard = kept.setdefault((id(spec), name), (spec, loaded))
        return shard, end_offset

    return mock.patch.object(shard_epoch, "load_shard", load)


def _late_commits_count_as_failed() -> Patch:
    """A write that is committed after its timeout is answered as failed, and undone in memory."""
    real = PendingResponse.wait

    async def wait(self: Any) -> Any:
        if not self.ready():
            self._deadline = -1.0
        return await real(self)

    return mock.patch.object(PendingResponse, "wait", wait)


_MOVES = {
    "balance_every": 0.12,
    "crash_every": 0.0,
    "stop_every": 0.0,
    "delay_max": 0.02,
    "partition_every": 0.0,
    "isolate_every": 0.0,
    "slow_every": 0.0,
    "shards": 1,
}
STATE = ("answer", "G3", "G4", "G5", "T7", "T5", "T6", "T1", "T10", "G1", "G2", "I4", "L1")
SHARDS: tuple[tuple[str, Any, tuple[str, ...], dict[str, Any]], ...] = (
    ("load stops before the end", _load_stops_before_the_end, STATE, _MOVES),
    ("the first record counts", _the_first_record_counts, STATE, _MOVES),
    ("aborted records are loaded", _aborted_records_are_loaded, STATE, _MOVES),
    ("committed records are not loaded", _committed_records_are_not_loaded, STATE, _MOVES),
    ("open transactions are not loaded", _open_transactions_are_not_loaded, STATE, _MOVES),
    ("serves before it has loaded", _serves_before_it_has_loaded, STATE, _MOVES),
    ("answers what is not committed", _answers_what_is_not_committed, STATE, {}),
    ("reads what is not committed", _reads_what_is_not_committed, STATE, {"delay_max": 0.4}),
    ("writes are done at once", _writes_are_done_at_once, STATE, {"consumer_protocol": False}),
    ("old coordinators stay", _old_coordinators_stay, STATE, _MOVES),
    ("new epochs keep the old shard", _new_epochs_keep_the_old_shard, STATE, _MOVES),
    ("nothing is committed in time", _late_commits_count_as_failed, STATE, {}),
)
