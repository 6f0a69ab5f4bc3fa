"""Waits of the coordinator and their length, exact to the millisecond of a controlled clock; the test releases the
markers.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.calls import finished
from tests.broker.transactions.rig import HERE, NAME, open_rig
from tests.cluster.data_side import partition, topic
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.ports import TRANSACTION_TOPIC
from trimaran.broker.transactions.transaction import TransactionState
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

E, S = ErrorCode, TransactionState
LAST = 32_766
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def outcome(act, *args, **options):
    """Returns the result or the error code, and the number of milliseconds."""
    began = trio.current_time()
    try:
        found = await act(*args, **options)
    except KafkaError as error:
        found = error.code
    return found, round((trio.current_time() - began) * 1000)


@pytest.fixture
async def rig(tmp_path, mock_clock):
    async with open_rig(tmp_path) as rig:
        mock_clock.autojump_threshold = 0
        yield rig


async def later(ms, act):
    await trio.sleep(ms / 1000)
    act()


async def test_timeout_is_between_one_and_limit(tmp_path, mock_clock):
    async with open_rig(tmp_path, limits=TransactionLimits(timeout_ms_max=500)) as rig:
        for timeout_ms in (-1, 0, 501):
            refused = await outcome(rig.init, timeout_ms=timeout_ms)
            assert refused[0] == E.INVALID_TRANSACTION_TIMEOUT
        for timeout_ms in (1, 500):
            await rig.init(timeout_ms=timeout_ms)
            assert rig.state.timeout_ms == timeout_ms


async def test_partition_count_is_actual_or_configured(tmp_path):
    async with open_rig(tmp_path, leads=False, limits=TransactionLimits(partition_count=7)) as rig:
        assert rig.coordinator.partition_count() == 1
        three = [partition((HERE,))] * 3
        rig.metadata.set(topic(TRANSACTION_TOPIC, *three))
        assert rig.coordinator.partition_count() == 3
        rig.metadata.set(topic("t", partition((HERE,))))
        assert rig.coordinator.partition_count() == 7
        found = {rig.coordinator.partition_of(f"id-{number}") for number in range(50)}
        assert found == set(range(7))


async def test_empty_or_foreign_id_is_refused(tmp_path):
    async with open_rig(tmp_path, leads=False) as rig:
        for name, code in (("", E.INVALID_REQUEST), (NAME, E.NOT_COORDINATOR)):
            with pytest.raises(KafkaError) as caught:
                rig.coordinator.epoch_of(name)
            assert caught.value.code == code


async def test_producer_waits_a_second_for_load(tmp_path, mock_clock, nursery, held_load):
    async with open_rig(tmp_path, leads=False) as rig:
        rig.lead()
        found = []

        async def init():
            found.append(await outcome(rig.init))

        nursery.start_soon(init)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(0.999)
        await trio.testing.wait_all_tasks_blocked()
        assert found == []
        mock_clock.jump(0.001)
        await trio.testing.wait_all_tasks_blocked()
        assert found == [(E.COORDINATOR_LOAD_IN_PROGRESS, 1000)]
        nursery.start_soon(init)
        await trio.testing.wait_all_tasks_blocked()
        held_load.set()
        await rig.coordinator.epoch_of(NAME).wait_loaded()
        await trio.testing.wait_all_tasks_blocked()
        assert found[1:] == [(Producer(1001, 0), 0)]


async def test_next_producer_waits_for_markers_of_aborted(rig, nursery, mock_clock):
    await rig.begin()
    nursery.start_soon(later, 400, rig.markers.goes_on.set)
    assert await outcome(rig.init) == (Producer(1001, 2), 400)
    assert rig.producer_ids.taken == 1


async def test_waiter_for_markers_gives_up_after_second(rig, mock_clock):
    first = await rig.begin()
    await rig.end(first)
    next_one = first._replace(epoch=first.epoch + 1)
    for act in (rig.init, lambda: rig.add(next_one, 0), lambda: rig.end(next_one)):
        assert await outcome(act) == (E.CONCURRENT_TRANSACTIONS, 1000)
    waiting = rig.coordinator.wait_for_end
    found = await outcome(waiting, NAME, trio.current_time() + 0.03)
    assert found == (E.CONCURRENT_TRANSACTIONS, 30)
    assert not rig.shard._waiting
    assert rig.state.state is S.PREPARE_COMMIT


async def test_waiter_continues_after_markers_are_written(rig, nursery, mock_clock):
    first = await rig.begin()
    await rig.end(first)
    next_one = first._replace(epoch=first.epoch + 1)
    nursery.start_soon(later, 70, rig.markers.goes_on.set)
    assert await outcome(rig.add, next_one, 1) == (None, 70)
    assert (rig.state.state, rig.state.partitions) == (S.ONGOING, {T1})


async def test_wait_ends_with_the_leadership(rig, nursery, mock_clock):
    await rig.end(await rig.begin())
    nursery.start_soon(later, 70, rig.resign)
    assert await outcome(rig.init) == (E.NOT_COORDINATOR, 70)


async def test_other_refusals_are_returned_at_once(rig, mock_clock):
    first = await rig.begin()
    other = first._replace(epoch=7)
    assert await outcome(rig.add, other, 0) == (E.PRODUCER_FENCED, 0)
    assert await outcome(rig.end, other) == (E.PRODUCER_FENCED, 0)
    assert await outcome(rig.init, other) == (E.PRODUCER_FENCED, 0)


async def test_id_taken_for_outdated_state_is_unused(rig, mock_clock):
    """Two producers request a new id at the same time: the second continues from the state after the first."""
    firsts = []

    def first_comes():
        decided = rig.coordinator.epoch_of(NAME).decide(
            lambda shard, at: shard.init_producer(NAME, None, 5, 77, at)
        )
        firsts.append(decided)

    rig.producer_ids.meanwhile.append(first_comes)
    assert await rig.init() == Producer(77, 1)
    assert len(firsts) == 1
    assert rig.producer_ids.taken == 1


async def test_last_epoch_ends_with_a_new_id(rig, mock_clock):
    producer = await rig.begin()
    last = rig.state._replace(epoch=LAST)
    rig.shard.transactions[NAME] = last
    producer = producer._replace(epoch=LAST)
    ended = await rig.end(producer)
    assert ended.response_producer == Producer(1002, 0)
    rig.shard.transactions[NAME] = last
    ending = rig.coordinator.ending(NAME, producer, is_commit=True, client_version=1)
    assert (await finished(ending)).response_producer == producer


async def test_partitions_are_verified_as_soon_as_committed(rig, mock_clock):
    producer = await rig.init()
    rig.leader.holding = True
    added = rig.coordinator.add_partitions(NAME, producer, [T0], 2)
    assert rig.state.partitions == {T0}
    verified = rig.coordinator.verify_partitions(NAME, producer, [T0, T1])
    assert (added.ready(), verified.ready()) == (False, False)
    rig.leader.commit()
    assert (added.ready(), verified.ready()) == (True, True)
    assert await verified.wait() == {T0: E.NONE, T1: E.TRANSACTION_ABORTABLE}
    missing = {TopicPartition("t", 2), TopicPartition("nowhere", 0)}
    assert rig.coordinator.unknown([T0, *missing]) == missing


async def test_missing_metadata_is_awaited_for_a_second(rig, nursery, mock_clock):
    wait_known = rig.coordinator.wait_known
    new, gone = TopicPartition("u", 0), TopicPartition("v", 0)
    assert await outcome(wait_known, [T0, T1]) == (set(), 0)
    assert await outcome(wait_known, [T0, new]) == ({new}, 1000)
    with_new = topic("u", partition((HERE,)))
    nursery.start_soon(later, 40, lambda: rig.metadata.set(with_new))
    assert await outcome(wait_known, [new]) == (set(), 40)
    assert await outcome(wait_known, [new, gone, T0]) == ({gone, T0}, 1000)


async def test_removed_ids_may_exceed_a_batch(tmp_path, mock_clock):
    """A tombstone has its id: together they take 1.2 MB."""
    limits = TransactionLimits(id_expiration_ms=0, expiry_interval_ms=1_000)
    async with open_rig(tmp_path, limits=limits) as rig:
        for number in range(200):
            name = f"{number}".rjust(6_000)
            await finished(rig.coordinator.initializing(name, 60_000, None))
        assert len(rig.shard.transactions) == 200
        mock_clock.autojump_threshold = 0
        await trio.sleep(2)
        assert rig.shard.transactions == {}


async def test_uncommitted_decision_times_out(tmp_path, mock_clock):
    async with open_rig(tmp_path, limits=TransactionLimits(commit_timeout_ms=70)) as rig:
        mock_clock.autojump_threshold = 0
        rig.leader.holding = True
        assert await outcome(rig.init) == (E.COORDINATOR_NOT_AVAILABLE, 70)


async def test_failing_disk_is_reported(rig, mock_clock):
    rig.leader.failing = E.NOT_ENOUGH_REPLICAS
    assert await outcome(rig.init) == (E.COORDINATOR_NOT_AVAILABLE, 0)
    rig.leader.failing = E.KAFKA_STORAGE_ERROR
    assert await outcome(rig.init) == (E.NOT_COORDINATOR, 0)
