"""The coordinator over a log: responses after the commit, loading, pruning, deleted topics."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.coordination.rig import code_of
from tests.broker.share_state.driver import ACKNOWLEDGED, KEY, OTHER, TOPIC_ID
from tests.broker.share_state.rig import open_rig, states_topic, topic_t
from tests.broker.transactions.rig import HERE
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.topics import RemoveTopicRecord

E = ErrorCode
ACKED = StateBatch(100, 109, ACKNOWLEDGED, 1)
STATE = ShareState(ShareSummary(1, 5, 100, 10), (ACKED,))


async def write_some(shares, key=KEY):
    await shares.initialize(key, 1, 100).wait()
    await shares.read(key, 5).wait()
    await at_once(shares.write(key, ShareSummary(1, 5, 100, 10), [ACKED])).wait()


async def test_state_survives_failover_of_coordinator(tmp_path):
    async with open_rig(tmp_path) as rig:
        await write_some(rig.shares)
        await rig.reload()
        assert await rig.shares.read(KEY, 5).wait() == STATE
        assert await rig.shares.summary(KEY).wait() == STATE.summary
        await rig.shares.delete(KEY).wait()
        await rig.reload()
        assert code_of(lambda: rig.shares.read(KEY, 5)) is E.INVALID_REQUEST


async def test_write_in_steps_ends_with_the_epoch(tmp_path):
    async with open_rig(tmp_path) as rig:
        await write_some(rig.shares)
        many = [StateBatch(2 * n, 2 * n, ACKNOWLEDGED, 1) for n in range(1_000)]
        steps = rig.shares.write(KEY, STATE.summary, many)
        next(steps)
        await rig.reload()
        assert code_of(lambda: at_once(steps)) is E.NOT_COORDINATOR
        assert await rig.shares.read(KEY, 5).wait() == STATE


async def test_writes_are_counted(tmp_path):
    async with open_rig(tmp_path) as rig:
        await write_some(rig.shares)
        await at_once(rig.shares.write(KEY, STATE.summary, [])).wait()
        await rig.shares.initialize(OTHER, 1, 100).wait()
        assert rig.shares.writes == 2


async def test_a_response_waits_for_the_commit(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.leader.holding = True
        pending = rig.shares.initialize(KEY, 1, 100)
        seen = rig.shares.summary(KEY)
        assert not pending.ready()
        assert not seen.ready()
        rig.leader.commit()
        await pending.wait()
        assert await seen.wait() == ShareSummary(1, 0, 100, 0)


async def test_an_uncommitted_write_fails_in_time(tmp_path, autojump_clock):
    async with open_rig(tmp_path, limits=ShareLimits(commit_timeout_ms=7_000)) as rig:
        rig.leader.holding = True
        pending = rig.shares.initialize(KEY, 1, 100)
        began = trio.current_time()
        with pytest.raises(KafkaError) as caught:
            await pending.wait()
        assert caught.value.code is E.COORDINATOR_NOT_AVAILABLE
        assert trio.current_time() - began == 7


async def test_another_broker_is_not_coordinator(tmp_path):
    async with open_rig(tmp_path, leads=False) as rig:
        assert code_of(lambda: rig.shares.summary(KEY)) is E.NOT_COORDINATOR
        rig.lead()
        assert code_of(lambda: rig.shares.summary(KEY)) is E.COORDINATOR_LOAD_IN_PROGRESS
        await rig.shares.wait_loaded(KEY, 5)
        assert await rig.shares.summary(KEY).wait() == ShareSummary(0, 0, None, None)


async def test_a_load_is_waited_for_in_time(tmp_path, held_load, autojump_clock):
    async with open_rig(tmp_path, leads=False) as rig:
        rig.lead()
        began = trio.current_time()
        await rig.shares.wait_loaded(KEY, 3)
        assert trio.current_time() - began == 3
        assert code_of(lambda: rig.shares.summary(KEY)) is E.COORDINATOR_LOAD_IN_PROGRESS
        held_load.set()


async def test_partition_follows_hash_of_the_text(tmp_path):
    """The expected numbers are Java's `abs("g:AAAAAAAAAAAAAAAAAAAABw:N".hashCode()) % 50`."""
    async with open_rig(tmp_path) as rig:
        rig.metadata.set(topic_t())
        assert [rig.shares.partition_of(key) for key in (KEY, OTHER)] == [13, 12]
        rig.metadata.set(states_topic(HERE, HERE), topic_t())
        assert [rig.shares.partition_of(key) for key in (KEY, OTHER)] == [1, 0]


async def test_redundant_records_are_deleted_after_the_commit(tmp_path, autojump_clock, caplog):
    limits = ShareLimits(updates_per_snapshot=1, cold_snapshot_interval_ms=10**9)
    async with open_rig(tmp_path, limits=limits) as rig:
        await write_some(rig.shares)  # the write makes a snapshot at offset 2
        rig.leader.holding = True
        rig.shares.initialize(KEY, 1, 200)
        await trio.sleep(301)
        assert rig.leader.log.log_start_offset == 0
        rig.leader.commit()
        await trio.testing.wait_all_tasks_blocked()
        assert rig.leader.log.log_start_offset == 3
        rig.leader.failing = E.POLICY_VIOLATION  # nothing more is deleted
        await trio.sleep(301)
        assert "redundant" not in caplog.text
        rig.leader.failing = None
        await rig.reload()
        assert (await rig.shares.summary(KEY).wait()).start_offset == 200


async def test_a_refused_deletion_is_tried_again(tmp_path, autojump_clock, caplog):
    async with open_rig(tmp_path) as rig:
        await rig.shares.initialize(KEY, 1, 100).wait()
        await rig.shares.initialize(KEY, 1, 200).wait()
        rig.leader.failing = E.POLICY_VIOLATION
        await trio.sleep(301)
        assert "redundant records before offset 1 stay: POLICY_VIOLATION" in caplog.text
        rig.leader.failing = None
        await trio.sleep(301)
        assert rig.leader.log.log_start_offset > 0


async def test_states_of_a_deleted_topic_are_deleted(tmp_path):
    async with open_rig(tmp_path) as rig:
        await write_some(rig.shares)
        delta = MetadataDelta(rig.metadata.image)
        delta.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
        rig.shares.publish(delta, rig.metadata.image, None)
        await trio.testing.wait_all_tasks_blocked()
        assert await rig.shares.summary(KEY).wait() == ShareSummary(0, 0, None, None)
