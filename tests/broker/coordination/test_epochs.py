"""The life of a shard's epochs, one rule per test: load, serve, close, and isolation from other epochs."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from tests.broker.coordination.counters import IDLE_MS, Count, CounterShard, CountSerde
from tests.broker.coordination.rig import code_of, open_rig
from trimaran.broker import events
from trimaran.broker.coordination import loader
from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.errors import ErrorCode
from trimaran.wire.text.events import event_of
from trimaran.wire.transport.scheduling.events import yield_to_loop

E = ErrorCode


# -- load


async def test_nothing_is_served_if_another_broker_leads(tmp_path):
    async with open_rig(tmp_path) as rig:
        assert code_of(rig.epoch) is E.NOT_COORDINATOR


def test_loaded_state_is_hidden_from_the_collector(monkeypatch):
    """Records of the log are frozen as they are replayed, then the shard's own objects, a few at a time."""
    counted = []
    monkeypatch.setattr(loader, "LongLived", lambda: SimpleNamespace(add=counted.append))
    monkeypatch.setattr(loader, "ROWS_AT_ONCE", 2)
    loading = loader.CoordinatorLoader(CountSerde())
    loading.feed(build_batch([NewRecord(name, b"1", 0) for name in (b"a", b"b", b"c")]))
    loading.replay_into(CounterShard())
    assert counted == [3, 2, 2]


async def test_nothing_is_served_before_load_ends(tmp_path, held_load):
    async with open_rig(tmp_path) as rig:
        rig.lead()
        await trio.testing.wait_all_tasks_blocked()
        assert code_of(rig.epoch().active) is E.COORDINATOR_LOAD_IN_PROGRESS
        assert code_of(lambda: rig.add("a")) is E.COORDINATOR_LOAD_IN_PROGRESS
        held_load.set()
        await rig.loaded()
        assert rig.add("a").ready()


async def test_state_equals_that_of_the_log(tmp_path):
    async with open_rig(tmp_path, load_buffer_bytes=1) as rig:
        await rig.serve()
        for name in ("a", "b", "a", "a"):
            rig.add(name)
        rig.epoch().submit(Result([Count("b", None)], None))
        shard = await rig.reload()
        assert shard.counts == {"a": 3}


async def test_returning_leader_finds_records_of_another_broker(tmp_path):
    async with open_rig(tmp_path) as rig, open_rig(tmp_path) as other:
        await rig.serve()
        rig.add("a")
        rig.resign()
        other.leaders.update(rig.leaders)
        await other.serve(epoch=1)
        other.add("a")
        other.resign()
        other.leaders.clear()
        _, shard = await rig.serve(epoch=2)
        assert shard.counts == {"a": 2}


async def test_last_record_per_key_is_replayed_in_order(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        for name in ("a", "b", "a", "c"):
            rig.add(name)
        rig.epoch().submit(Result([Count("c", None)], None))
        shard = await rig.reload()
        assert shard.replayed == [(1, Count("b", 1), None), (2, Count("a", 2), None)]


async def test_uncompacted_topic_replays_every_record(tmp_path):
    async with open_rig(tmp_path, compacted=False) as rig:
        await rig.serve()
        for name in ("a", "b", "a"):
            rig.add(name)
        rig.epoch().submit(Result([Count("b", None)], None))
        shard = await rig.reload()
        assert [offset for offset, _, _ in shard.replayed] == [0, 1, 2, 3]
        assert shard.counts == {"a": 2}


async def test_loaded_state_has_its_deadlines(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        rig.add("a")
        shard = await rig.reload()
        await trio.sleep(IDLE_MS / 1000 - 1)
        assert shard.counts == {"a": 1}
        await trio.sleep(2)
        assert shard.counts == {}


@pytest.mark.parametrize("ends", [False, True])
async def test_load_waiters_learn_whether_it_serves(tmp_path, held_load, ends):
    told = []

    async def wait(epoch):
        await epoch.wait_loaded()
        told.append(epoch.state)

    async with open_rig(tmp_path) as rig, trio.open_nursery() as nursery:
        rig.lead()
        nursery.start_soon(wait, rig.epoch())
        await trio.testing.wait_all_tasks_blocked()
        assert told == []
        if ends:
            rig.resign()
        else:
            held_load.set()
            await rig.loaded()
        await trio.testing.wait_all_tasks_blocked()
        assert told == [ShardState.CLOSED if ends else ShardState.ACTIVE]
        held_load.set()


async def test_only_plain_batches_are_decoded_together(tmp_path, monkeypatch):
    """A compressed batch may expand greatly."""
    runs, decode = [], loader.decode_columns
    monkeypatch.setattr(
        loader, "decode_columns", lambda run: (runs.append(len(run)), decode(run))[1]
    )
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        for codec in (0, 0, 0, 1, 1, 0):
            records = bytearray(
                build_batch([NewRecord(b"a", b"1", 0)], compression=Compression(codec))
            )
            leader.append(memoryview(records), list(iter_batches(records)))
        await rig.reload()
    assert runs == [3, 1, 1, 1]


async def test_records_of_a_version_to_come_are_skipped(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        rig.epoch().submit(Result([Count("?new", 1), Count("a", 1)], None))
        shard = await rig.reload()
        assert shard.counts == {"a": 1}


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_records_without_a_key_are_skipped(tmp_path, is_transactional):
    """Compacted topics refuse them, but a log may be older than the topic's cleanup.policy."""
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        fields = {**producer, "is_transactional": True} if is_transactional else {}
        records = bytearray(
            build_batch([NewRecord(None, b"1", 0), NewRecord(b"a", b"2", 0)], **fields)
        )
        leader.append(memoryview(records), list(iter_batches(records)))
        shard = await rig.reload()
        assert [(offset, record) for offset, record, _ in shard.replayed] == [(1, Count("a", 2))]


async def test_ended_epoch_stops_reading_its_log(tmp_path, monkeypatch):
    """The log may have been removed by then."""
    reads, read = [], PartitionLog.read
    async with open_rig(tmp_path, load_buffer_bytes=1) as rig:
        await rig.serve()
        for _ in range(3):
            rig.add("a")
        rig.resign()

        def ended_meanwhile(log, offset, *limits, **more):
            reads.append(offset)
            if len(reads) == 1:
                rig.resign()
            return read(log, offset, *limits, **more)

        monkeypatch.setattr(PartitionLog, "read", ended_meanwhile)
        rig.lead(1)
        await trio.testing.wait_all_tasks_blocked()
        _, shard = await rig.serve(2)
        assert shard.counts == {"a": 3}
    assert reads == [0, 0, 1, 2]


async def test_long_work_after_load_runs_in_thread(tmp_path, monkeypatch):
    threads = []
    monkeypatch.setattr(
        CounterShard, "finish_load", lambda _: threads.append(threading.get_ident())
    )
    async with open_rig(tmp_path) as rig:
        await rig.serve()
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_input_during_load_is_delivered_afterwards(tmp_path, held_load):
    given = []
    async with open_rig(tmp_path) as rig:
        rig.lead()
        rig.epoch().step_when_loaded(lambda shard, _at: given.append(shard))
        await trio.testing.wait_all_tasks_blocked()
        assert given == []
        held_load.set()
        shard = await rig.loaded()
        assert given == [shard]
        rig.epoch().step_when_loaded(lambda shard, _at: given.append(shard))
        assert given == [shard, shard]


@contextmanager
def failures_expected(caplog):
    with (
        caplog.at_level(logging.CRITICAL, logger="trimaran.broker.coordination.shard_epoch"),
        caplog.at_level(logging.CRITICAL, logger="trimaran.broker.coordination.runtime"),
    ):
        yield


async def until_failed(rig):
    failed = rig.epoch()
    await failed._state.wait_for(lambda state: state is ShardState.CLOSED)
    return failed


async def test_unreplayable_log_fails_shard_until_next_epoch(tmp_path, caplog):
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        await rig.serve(index=1)
        rig.epoch().submit(Result([Count("a", -1)], None))  # "-1" is not a count
        rig.resign()
        with failures_expected(caplog):
            rig.lead(1)
            await until_failed(rig)
        assert code_of(rig.epoch().active) is E.NOT_COORDINATOR
        assert rig.add("b", index=1).ready()
        rig.resign()
        leader.log.truncate_to(0)
        await rig.serve(2)
        assert rig.add("a").ready()


async def test_failed_shard_is_reloaded_with_growing_pauses(tmp_path, caplog, autojump_clock):
    """The leader does not change; the log or the disk may have recovered."""
    loads = []

    class Unreadable(CounterShard):
        def __init__(self):
            super().__init__()
            loads.append(trio.current_time())
            if len(loads) < 9:
                raise OSError("the disk is elsewhere")

    async with open_rig(tmp_path) as rig:
        rig.runtime.spec = replace(rig.runtime.spec, make_shard=Unreadable)
        with failures_expected(caplog):
            rig.lead()
            await until_failed(rig)
            assert code_of(rig.epoch().active) is E.NOT_COORDINATOR
            current = rig.runtime._current[0]
            with trio.fail_after(1000):
                for _ in range(8):
                    await current.wait_not(current.value)
            await rig.loaded()
        pauses = [round(later - before) for before, later in pairwise(loads)]
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
        assert rig.add("a").ready()


class Unreliable:
    """Shards that fail to load a given number of times; `loads` has the time of each attempt. Time may pass during a
    load, which runs in a thread: the times of the starts are compared.
    """

    def __init__(self, rig):
        self.loads = []
        self.failures = 0
        self._rig = rig
        rig.runtime.spec = replace(rig.runtime.spec, make_shard=self._make)

    def _make(self):
        self.loads.append(trio.current_time())
        if len(self.loads) <= self.failures:
            raise OSError("the disk is elsewhere")
        return CounterShard()

    async def fail(self, times):
        """Runs until the load has failed `times` times and then succeeded."""
        self.loads.clear()
        self.failures = times
        current = self._rig.runtime._current[0]
        for _ in range(times):
            await current.wait_not(current.value)
        await self._rig.loaded()

    @property
    def pauses(self):
        return [round(later - before) for before, later in pairwise(self.loads)]


async def test_new_leadership_resets_the_reload_pause(tmp_path, caplog, autojump_clock):
    async with open_rig(tmp_path) as rig:
        shards = Unreliable(rig)
        with failures_expected(caplog):
            rig.lead()
            await shards.fail(3)
            assert shards.pauses == [1, 2, 4]
            rig.resign()
            await trio.testing.wait_all_tasks_blocked()
            rig.lead(1)
            await shards.fail(2)
            assert shards.pauses == [1, 2]


async def test_long_serving_shard_is_reloaded_soon(tmp_path, caplog, autojump_clock):
    async with open_rig(tmp_path) as rig:
        shards = Unreliable(rig)
        with failures_expected(caplog):
            rig.lead()
            await shards.fail(3)
            await trio.sleep(61)
            failed_at, served = trio.current_time(), rig.epoch()
            served.active().replayed = None  # a bug in the shard
            with pytest.raises(AttributeError):
                rig.add("a")
            await rig.runtime._current[0].wait_not(served)
            await rig.loaded()
            assert round(shards.loads[-1] - failed_at) == 1


async def test_nonempty_load_is_logged(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="trimaran.broker.coordination.loader"):
        async with open_rig(tmp_path) as rig:
            await rig.serve()
            assert caplog.text == ""
            rig.epoch().submit(Result([Count("a", 1), Count("b", 2)], None))
            await rig.reload()
            assert "__counters-0: loaded 2 records" in caplog.text
            assert 0 <= caplog.records[-1].args["seconds"] < 60


async def test_shard_diverged_from_its_log_is_reloaded(tmp_path, caplog, autojump_clock):
    async with open_rig(tmp_path) as rig:
        _, shard = await rig.serve()
        shard.replayed = None  # a bug in the shard
        with failures_expected(caplog):
            with pytest.raises(AttributeError):
                rig.add("a")
            failed = await until_failed(rig)
            with trio.fail_after(10):
                await rig.runtime._current[0].wait_not(failed)
        assert (await rig.loaded()).counts == {"a": 1}


async def test_failed_shard_is_not_reloaded_after_leadership(tmp_path, caplog, autojump_clock):
    async with open_rig(tmp_path) as rig:
        _, shard = await rig.serve()
        shard.replayed = None
        with failures_expected(caplog), pytest.raises(AttributeError):
            rig.add("a")
        await trio.testing.wait_all_tasks_blocked()
        rig.resign()
        await trio.sleep(100)
        assert not rig.runtime.epochs


# -- successive epochs


async def test_epoch_loads_after_previous_has_unwound(tmp_path, held_load, monkeypatch):
    """The old epoch's threads must have ended, too; otherwise the new epoch would write while the old one reads."""
    made = []
    init = CounterShard.__init__

    def noting(shard):
        made.append(shard)
        init(shard)

    monkeypatch.setattr(CounterShard, "__init__", noting)
    async with open_rig(tmp_path) as rig:
        rig.lead()
        await trio.testing.wait_all_tasks_blocked()
        rig.resign()
        rig.lead(1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(made) == 1
        held_load.set()
        await rig.loaded()
        assert len(made) == 2


async def test_epoch_ended_during_load_never_serves(tmp_path, held_load):
    async with open_rig(tmp_path) as rig:
        rig.lead()
        loading = rig.epoch()
        await trio.testing.wait_all_tasks_blocked()
        rig.resign()
        held_load.set()
        await rig.serve(1)
        assert loading.state is ShardState.CLOSED
        assert code_of(loading.active) is E.NOT_COORDINATOR


async def test_state_of_ended_epoch_is_released_in_thread(tmp_path, monkeypatch):
    threads, unloaded = [], trio.Event()
    token = trio.lowlevel.current_trio_token()

    def noting(_shard):
        threads.append(threading.get_ident())
        token.run_sync_soon(unloaded.set)

    monkeypatch.setattr(CounterShard, "unload", noting)
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        rig.resign()
        await rig.serve(1)  # does not wait until the shard is unloaded
        await unloaded.wait()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_end_of_older_epoch_ends_nothing(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.runtime.ended(0, 0)
        await rig.serve(5)
        rig.runtime.ended(0, 4)
        assert rig.add("a").ready()


async def test_ended_epoch_serves_nothing(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        old = rig.epoch()
        shard = old.active()
        rig.resign()
        assert code_of(old.active) is E.NOT_COORDINATOR
        assert code_of(lambda: old.submit(Result([Count("a", 9)], None))) is E.NOT_COORDINATOR
        assert code_of(lambda: old.submit(Result((), None))) is E.NOT_COORDINATOR
        assert (
            code_of(lambda: old.decide(lambda shard, _at: shard.add("a", 9))) is E.NOT_COORDINATOR
        )
        await rig.serve(1)
        assert shard.counts == {}
        assert rig.epoch().active().counts == {}


async def test_closed_shard_answers_nothing_though_still_led(tmp_path):
    """The state of a closed shard no longer matches its log."""
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        epoch = rig.epoch()
        epoch.close()
        assert code_of(lambda: epoch.submit(Result((), None))) is E.NOT_COORDINATOR


async def test_epoch_without_leadership_writes_nothing(tmp_path):
    """The end of the leadership may be announced slightly after the partition has lost it."""
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        leader.high_watermark.close()
        assert code_of(lambda: rig.add("a")) is E.NOT_COORDINATOR
        assert code_of(lambda: rig.epoch().submit(Result((), None))) is E.NOT_COORDINATOR
        assert shard.counts == {}


async def test_timers_of_ended_epoch_never_fire(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        rig.add("a")
        shard = await rig.reload()
        before = leader.log.log_end_offset
        rig.resign()
        await trio.sleep(2 * IDLE_MS / 1000)
        assert leader.log.log_end_offset == before
        assert shard.outcomes == []


async def test_tasks_due_at_epoch_end_are_dropped(tmp_path, caplog):
    """Two of its tasks are already runnable, one for a commit, one for a deadline."""
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        rig.add("a")
        rig.add("b")
        leader.holding = True
        rig.epoch().step(lambda shard, at: shard._timers.set("a", at.now))
        await trio.testing.wait_all_tasks_blocked()
        before = leader.log.log_end_offset
        rig.epoch().step(lambda shard, at: shard._timers.set("b", at.now))
        leader.commit()
        rig.resign()
        await trio.testing.wait_all_tasks_blocked()
        assert leader.log.log_end_offset == before
        assert shard.outcomes == []
        assert not caplog.records


async def test_ended_epochs_state_is_not_referenced(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        state = weakref.ref(rig.epoch().active())
        rig.resign()
        with trio.fail_after(30):
            while state() is not None:  # a thread empties it first
                gc.collect()
                await yield_to_loop()
        assert state() is None


async def test_waiter_fails_when_epoch_ends(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        pending = PendingResponse()
        rig.epoch().step(lambda shard, _at: shard.wait_for("a", 1, pending))
        assert not pending.ready()
        rig.resign()
        assert await pending.wait() is E.NOT_COORDINATOR


async def test_waiter_fails_when_broker_stops(tmp_path):
    pending = PendingResponse()
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        rig.epoch().step(lambda shard, _at: shard.wait_for("a", 1, pending))
    assert await pending.wait() is E.NOT_COORDINATOR


async def test_shard_that_cannot_replay_its_write_closes(tmp_path, monkeypatch, caplog):
    """State and log no longer match. The partition itself continues: the records are in its log."""
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()

        def broken(_shard, _record):
            raise ValueError("broken")

        with monkeypatch.context() as patch:
            patch.setattr(CounterShard, "_apply", broken)
            with pytest.raises(ValueError, match="broken"):
                rig.add("a")
        assert caplog.records
        caplog.clear()
        assert code_of(rig.epoch().active) is E.NOT_COORDINATOR
        assert not leader.high_watermark.closed
        assert (await rig.reload()).counts == {"a": 1}


async def test_replay_failures_are_logged_with_cause(tmp_path, caplog, autojump_clock):
    """One record cannot be loaded, another cannot be replayed when it is written."""
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        rig.epoch().submit(Result([Count("a", -1)], None))  # "-1" is not a count
        rig.resign()
        rig.lead(1)
        await until_failed(rig)
        await trio.testing.wait_all_tasks_blocked()
        _, shard = await rig.serve(index=1)
        shard.replayed = None  # a bug in the shard
        with pytest.raises(AttributeError):
            rig.add("b", index=1)
    with_cause = {event_of(record) for record in caplog.records if record.exc_info}
    assert with_cause == {events.COORDINATOR_FAILED, events.COORDINATOR_REPLAY_FAILED}
    assert events.COORDINATOR_RELOADING in map(event_of, caplog.records)
