"""Guarantees to a serving shard: writes, responses, time."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.coordination.counters import IDLE_MS, Count, CounterShard, Forgotten
from tests.broker.coordination.rig import code_of, open_rig
from tests.counted_work import Work
from trimaran.broker.coordination import effects
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.slice_end import slice_end

E = ErrorCode
IDLE_SECONDS = IDLE_MS / 1000


async def refusal(pending):
    with pytest.raises(KafkaError) as caught:
        await pending.wait()
    return caught.value.code


# -- responses


async def test_response_is_sent_once_records_are_committed(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        leader.holding = True
        pending = rig.add("a", 5)
        assert shard.counts == {"a": 5}, "the state runs ahead of the commit"
        assert not pending.ready()
        leader.commit()
        assert pending.ready()
        assert await pending.wait() == 5


async def test_read_is_answered_after_commit(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        leader.holding = True
        rig.add("a", 5)
        read = rig.epoch().submit(Result((), shard.counts["a"]))
        assert not read.ready()
        leader.commit()
        assert await read.wait() == 5


async def test_reader_awaits_a_commit_without_other_waiters(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        leader.holding = True
        rig.epoch().submit(Result((Count("a", 5),), None, is_awaited=False))
        assert (shard.counts, leader.left) == ({"a": 5}, 1)
        read = rig.epoch().submit(Result((), shard.counts["a"]))
        assert (read.ready(), leader.left) == (False, 0)
        leader.commit()
        assert await read.wait() == 5


async def test_loaded_records_are_returned_once_committed(tmp_path):
    """A new leader has all committed records, but does not know the high watermark yet."""
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        rig.add("a")
        rig.resign()
        leader = rig.lead(1)
        leader.high_watermark = Watermark(0)
        shard = await rig.loaded()
        read = rig.epoch().submit(Result((), shard.counts["a"]))
        assert not read.ready()
        leader.commit()
        assert await read.wait() == 1


async def test_commit_is_awaited_until_timeout(tmp_path, autojump_clock):
    async with open_rig(tmp_path, commit_timeout_ms=2_000) as rig:
        leader, _ = await rig.serve()
        leader.holding = True
        began = trio.current_time()
        pending = rig.add("a")
        assert await refusal(pending) is E.COORDINATOR_NOT_AVAILABLE
        assert trio.current_time() - began == pytest.approx(2)
        leader.commit()
        assert await pending.wait() == 1, "it is known now"


async def test_commit_waiter_fails_when_epoch_ends(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        leader.holding = True
        pending = rig.add("a")
        rig.resign()
        assert await refusal(pending) is E.NOT_COORDINATOR


async def test_shards_own_rule_completes_a_response(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        pending = PendingResponse()
        rig.epoch().step(lambda shard, _at: shard.wait_for("a", 2, pending))
        heard = []

        async def wait():
            heard.append(await pending.wait())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(wait)
            nursery.cancel_scope.deadline = trio.current_time() + 10
            rig.add("a")
            await trio.testing.wait_all_tasks_blocked()
            assert heard == []
            rig.add("a")
        assert heard == [2, 2]
        pending.complete(9)
        assert pending.response == 2, "only the first counts"


async def test_appended_records_are_replayed_at_once(tmp_path):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        pending = PendingResponse()
        rig.epoch().step(lambda shard, _at: shard.wait_for("a", 2, pending))
        rig.epoch().submit(Result([Count("a", 1), Count("a", 2)], None))
        assert pending.ready()


async def test_record_is_replayed_with_its_offset(tmp_path):
    async with open_rig(tmp_path) as rig:
        _, shard = await rig.serve()
        rig.epoch().submit(Result([Count("a", 1), Count("b", 2)], None))
        rig.add("c")
        offsets = [(offset, record.name) for offset, record, _ in shard.replayed]
        assert offsets == [(0, "a"), (1, "b"), (2, "c")]


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [(None, E.NONE), (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE)],
)
async def test_outcome_of_write_is_applied_at_once(tmp_path, monkeypatch, failure, outcome):
    """The outcome of its own write may allow a shard to answer a request."""
    pending = PendingResponse()
    monkeypatch.setattr(
        CounterShard,
        "written",
        lambda shard, _write, code, _at: shard._effects.responses.append((pending, code)),
    )
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        rig.add("a")
        leader.failing = failure
        await forget(rig)
        assert pending.ready()
        assert pending.response is outcome


async def test_outcome_of_late_commit_is_applied_with_it(tmp_path, monkeypatch):
    pending = PendingResponse()
    monkeypatch.setattr(
        CounterShard,
        "written",
        lambda shard, _write, code, _at: shard._effects.responses.append((pending, code)),
    )
    async with open_rig(tmp_path) as rig:
        leader, _ = await rig.serve()
        rig.add("a")
        leader.holding = True
        await forget(rig)
        assert not pending.ready()
        leader.commit()
        await trio.testing.wait_all_tasks_blocked()
        assert pending.ready()


# -- follow-ups


def write(rig, name):
    """Lets the shard write, without a request, that a counter is removed."""
    forgotten = Forgotten((Count(name, None),))
    rig.epoch().step(lambda shard, _at: shard._effects.writes.append(forgotten))


def follow(rig, name):
    rig.epoch().step(lambda shard, _at: shard._effects.follow_ups.append(name))


async def test_follow_up_starts_after_all_earlier_commits(tmp_path):
    begun = []

    async def follow_up(epoch, name):
        begun.append((epoch, name))
        await trio.sleep_forever()

    async with open_rig(tmp_path, follow_up=follow_up) as rig:
        leader, _ = await rig.serve()
        epoch = rig.epoch()
        rig.add("a")
        follow(rig, "committed")
        await trio.testing.wait_all_tasks_blocked()
        assert begun == [(epoch, "committed")]
        leader.holding = True
        for name in ("first", "second"):
            rig.add("a")
            follow(rig, name)
        for committed, named in ((2, ["first"]), (3, ["first", "second"])):
            await trio.testing.wait_all_tasks_blocked()
            assert [name for _, name in begun[1:]] == named[:-1]
            leader.high_watermark.advance(committed)
            await trio.testing.wait_all_tasks_blocked()
            assert [name for _, name in begun[1:]] == named


async def test_thousands_of_follow_ups_start_in_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(effects, "FOLLOW_UPS_AT_ONCE", 10)
    begun, done = [], trio.Event()

    async def follow_up(_epoch, name):
        begun.append(name)
        if name == 99:
            done.set()

    async with open_rig(tmp_path, follow_up=follow_up) as rig:
        await rig.serve()
        begun_in_turns = Work(monkeypatch, effects.EffectRunner, "_begin_follow_ups")
        rig.epoch().step(lambda shard, _at: shard._effects.follow_ups.extend(range(100)))
        await done.wait()
    assert sorted(begun) == list(range(100))
    assert begun_in_turns.calls >= 10
    assert begun_in_turns.in_longest_step == 1


async def test_follow_up_of_immediate_commit_follows_the_answers(tmp_path):
    """The answers go out at the end of the slice of requests; otherwise two more turns of the loop would pass."""
    begun = []

    async def follow_up(_epoch, name):
        begun.append(name)

    async with open_rig(tmp_path, follow_up=follow_up) as rig:
        await rig.serve()
        end = slice_end()
        end.begin_slice()
        rig.add("a")
        follow(rig, "up")
        assert end._waiting
        assert not end.is_shared, "no further request is to be read for it"
        end.end_slice()
        for _ in range(2):  # tasks of one turn run in any order
            await trio.lowlevel.checkpoint()
        assert begun == ["up"]


@pytest.mark.parametrize("follows_first", [True, False])
async def test_follow_up_and_write_do_not_block_another(tmp_path, follows_first):
    begun = []

    async def follow_up(_epoch, name):
        begun.append(name)

    async with open_rig(tmp_path, follow_up=follow_up) as rig:
        leader, shard = await rig.serve()
        rig.add("a")
        await trio.testing.wait_all_tasks_blocked()
        leader.holding = True
        if follows_first:
            rig.add("a")
            follow(rig, "up")
        write(rig, "a")
        if not follows_first:
            rig.add("a")
            follow(rig, "up")
        await trio.testing.wait_all_tasks_blocked()
        assert (begun, shard.outcomes) == ([], [])
        leader.high_watermark.advance(2)
        await trio.testing.wait_all_tasks_blocked()
        assert (begun, shard.outcomes) == ((["up"], []) if follows_first else ([], [E.NONE]))
        leader.commit()
        await trio.testing.wait_all_tasks_blocked()
        assert (begun, shard.outcomes) == (["up"], [E.NONE])


async def test_follow_up_ends_with_the_epoch(tmp_path):
    ended = []

    async def follow_up(_epoch, name):
        try:
            await trio.sleep_forever()
        finally:
            ended.append(name)

    async with open_rig(tmp_path, follow_up=follow_up) as rig:
        leader, _ = await rig.serve()
        follow(rig, "begun")
        leader.holding = True
        rig.add("a")
        follow(rig, "never begun")
        await trio.testing.wait_all_tasks_blocked()
        assert ended == []
        rig.resign()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == ["begun"]


# -- writes


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_failed_write_changes_nothing(tmp_path, failure, answer):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        leader.failing = failure
        assert code_of(lambda: rig.add("a")) is answer
        assert shard.counts == {}


# -- time, and writes without a request


async def test_shard_is_woken_at_its_deadline(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        await rig.serve()
        rig.add("a")
        shard = await rig.reload()
        began = trio.current_time()
        rig.epoch().step(lambda shard, at: shard.touch("a", at))
        await trio.sleep(IDLE_SECONDS - 1)
        assert shard.counts == {"a": 1}
        await trio.sleep(2)
        assert shard.counts == {}
        assert trio.current_time() - began == pytest.approx(IDLE_SECONDS + 1)
        assert shard.outcomes == [E.NONE]
        assert (await rig.reload()).counts == {}


async def test_earlier_deadline_wakes_the_shard_earlier(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        _, shard = await rig.serve()
        rig.add("a")
        rig.epoch().step(lambda shard, at: shard._timers.set("a", at.now + 100))
        await trio.sleep(1)
        rig.epoch().step(lambda shard, at: shard._timers.set("a", at.now + 1))
        await trio.sleep(2)
        assert shard.counts == {}


async def forget(rig):
    rig.epoch().step(lambda shard, at: shard._timers.set("a", at.now))
    await trio.testing.wait_all_tasks_blocked()


async def test_shard_learns_when_its_write_is_committed(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        rig.add("a")
        leader.holding = True
        await forget(rig)
        assert shard.counts == {}
        assert shard.outcomes == []
        leader.commit()
        await trio.testing.wait_all_tasks_blocked()
        assert shard.outcomes == [E.NONE]


async def test_empty_write_is_committed_with_earlier_ones(tmp_path):
    """The waiter of an empty write is answered from the content of the log."""
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        leader.holding = True
        rig.add("a")
        rig.epoch().step(lambda shard, _at: shard._effects.writes.append(Forgotten(())))
        await trio.testing.wait_all_tasks_blocked()
        assert shard.outcomes == []
        leader.commit()
        await trio.testing.wait_all_tasks_blocked()
        assert shard.outcomes == [E.NONE]
        assert len(rig.batches()) == 1


async def test_shard_learns_when_its_write_fails(tmp_path):
    async with open_rig(tmp_path) as rig:
        leader, shard = await rig.serve()
        rig.add("a")
        leader.failing = E.NOT_ENOUGH_REPLICAS
        await forget(rig)
        assert shard.outcomes == [E.COORDINATOR_NOT_AVAILABLE]
        assert shard.counts == {"a": 1}


@pytest.mark.parametrize("other_deadline", [None, 1, 100])
async def test_shard_learns_once_of_uncommitted_write(tmp_path, autojump_clock, other_deadline):
    """This holds whatever other deadlines it has."""
    async with open_rig(tmp_path, commit_timeout_ms=2_000) as rig:
        leader, shard = await rig.serve()
        rig.add("a")
        if other_deadline is not None:
            rig.epoch().step(lambda shard, at: shard._timers.set("b", at.now + other_deadline))
        leader.holding = True
        rig.epoch().step(lambda shard, at: shard._timers.set("a", at.now))
        await trio.sleep(1.9)
        assert shard.outcomes == []
        await trio.sleep(0.2)
        assert shard.outcomes == [E.COORDINATOR_NOT_AVAILABLE]
        leader.commit()
        await trio.sleep(0.5)
        assert shard.outcomes == [E.COORDINATOR_NOT_AVAILABLE, *[E.NONE] * (other_deadline == 1)]
