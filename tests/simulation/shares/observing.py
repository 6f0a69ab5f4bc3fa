"""Reports each step of share partitions and their persisters to the checker. The functions of the product are called
unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from unittest import mock

from trimaran.broker.coordination.shard_epoch import ShardEpoch
from trimaran.broker.metadata.internal_topics import SHARE_GROUP_STATE
from trimaran.broker.share_state.persister import StatePersister
from trimaran.broker.share_state.shard import ShareCoordinatorShard
from trimaran.broker.sharing.led_share import LedShare
from trimaran.broker.sharing.settings import SharingSettings
from trimaran.broker.sharing.share_partition import SharePartition

if TYPE_CHECKING:
    from tests.simulation.shares.world import SharesWorld

Patch = AbstractContextManager[object]


def observed(world: SharesWorld) -> Sequence[Patch]:
    """Returns the patches that are in place during a run."""
    return (
        *_share_partitions(world),
        *_persisters(world),
        *_shards(world),
        mock.patch.object(ShardEpoch, "delete_records_before", _pruning(world)),
        mock.patch.object(SharingSettings, "of", _short(world)),
    )


def _share_partitions(world: SharesWorld) -> Sequence[Patch]:
    checker = world.checker
    began, loading = SharePartition.__init__, LedShare._load
    acquiring, releasing = LedShare.acquire, LedShare.release

    def begin(core: Any, state: Any, start: Any, leader_epoch: Any) -> None:
        began(core, state, start, leader_epoch)
        checker.begins(core, has_position=state.summary.start_offset is not None)

    async def load(share: Any) -> None:
        await loading(share)
        checker.loaded(share)

    def acquire(share: Any, *given: Any) -> Any:
        checker.loaded(share)  # a member's request may precede the task that loads the state
        known = share.core.size, share.core.end
        found = acquiring(share, *given)
        checker.acquired(share, given[2].member, found, *known)
        return found

    def release(share: Any, member: str, is_over: Any) -> Any:
        checker.released(share, member)
        return releasing(share, member, is_over)

    return (
        mock.patch.object(SharePartition, "__init__", begin),
        mock.patch.object(LedShare, "_load", load),
        mock.patch.object(LedShare, "acquire", acquire),
        mock.patch.object(LedShare, "release", release),
    )


def _persisters(world: SharesWorld) -> Sequence[Patch]:
    checker = world.checker
    writing, reading = StatePersister.write, StatePersister.read

    async def write(persister: Any, key: Any, summary: Any, batches: Any) -> None:
        before, batches = checker.epochs_of(key), list(batches)
        await writing(persister, key, summary, batches)
        checker.wrote(key, summary, batches, before)

    async def read(persister: Any, key: Any, leader_epoch: Any) -> Any:
        before = checker.epochs_of(key)
        state = await reading(persister, key, leader_epoch)
        checker.read(key, leader_epoch, before)
        return state

    return (
        mock.patch.object(StatePersister, "write", write),
        mock.patch.object(StatePersister, "read", read),
    )


def _shards(world: SharesWorld) -> Sequence[Patch]:
    checker, kind = world.checker, ShareCoordinatorShard
    initializing, reading = kind.initialize, kind.read
    writing, replaying = kind.write, kind.replay

    def initialize(shard: Any, *given: Any) -> Any:
        result = initializing(shard, *given)
        for record in result.records:
            checker.states.initializes(record)
        return result

    def read(shard: Any, key: Any, leader_epoch: Any, at: Any) -> Any:
        result = reading(shard, key, leader_epoch, at)
        checker.fences.reads(shard, key, leader_epoch, result.records)
        return result

    def write(shard: Any, key: Any, summary: Any, *given: Any) -> Any:
        result = yield from writing(shard, key, summary, *given)
        checker.fences.writes(shard, key, summary)  # the decision of a write that is not refused
        return result

    def replay(shard: Any, offset: Any, record: Any, *given: Any) -> None:
        replaying(shard, offset, record, *given)
        checker.fences.replays(shard, record)

    return (
        mock.patch.object(kind, "initialize", initialize),
        mock.patch.object(kind, "read", read),
        mock.patch.object(kind, "write", write),
        mock.patch.object(kind, "replay", replay),
    )


def _pruning(world: SharesWorld) -> Any:
    pruning = ShardEpoch.delete_records_before

    def delete(epoch: Any, offset: Any) -> None:
        if epoch._spec.topic == SHARE_GROUP_STATE:
            world.checker.prunes(epoch.partition_index, offset)
        pruning(epoch, offset)

    return delete


def _short(world: SharesWorld) -> Any:
    """Returns settings below the least values that a configuration may have, so that more happens in a run."""
    reading = SharingSettings.of

    def of(settings: Any, group_id: str) -> Any:
        found, rules = reading(settings, group_id), world.rules
        return found._replace(
            rules=found.rules._replace(
                record_locks_max=rules.locks,
                lock_seconds=rules.lock_ms / 1000,
                renews=rules.renews,
            )
        )

    return of
