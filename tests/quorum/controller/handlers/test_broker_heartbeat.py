"""BrokerHeartbeat: a broker is unfenced when it has caught up, fenced at its request, and released when it leads
nothing.
"""

import pytest
import trio

from tests.quorum.controller.handlers.controller_client import controller_client
from tests.quorum.controller.solo import solo
from tests.quorum.metadata.build import (
    broker,
    changed_broker,
    config,
    features,
    partition,
    topic,
)
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller import active_controller
from trimaran.quorum.controller.handlers import broker_heartbeat as decisions
from trimaran.quorum.controller.handlers.broker_heartbeat import broker_heartbeat
from trimaran.quorum.controller.tasks import own_decisions
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.events import AutoResetEvent

SESSION = 9.0


async def test_caught_up_broker_is_unfenced(tmp_path):
    async with controller_client(tmp_path) as one:
        broker = one.nodes.scripted_broker(one.connection, 1)
        await broker.register()
        behind = await broker.beat(offset=0)
        assert (behind.is_caught_up, behind.is_fenced) == (False, True)
        there = await broker.beat(offset=broker.epoch)
        assert (there.is_caught_up, there.is_fenced) == (True, False)
        assert one.image.cluster.brokers[1].fenced is False


async def test_broker_that_wants_fencing_leads_nothing(tmp_path):
    async with controller_client(tmp_path) as one:
        first, _second = await one.join(1, 2)
        await one.create("t", [1, 2])
        assert (await first.beat(want_fence=True)).is_fenced
        assert (one.partition().leader, one.partition().isr) == (2, (2,))


async def test_broker_with_nothing_to_hand_over_may_stop(tmp_path):
    async with controller_client(tmp_path) as one:
        (broker,) = await one.join(1)
        answer = await broker.beat(want_shut_down=True)
        assert answer.should_shut_down


async def test_unknown_or_stale_broker_gets_an_error(tmp_path):
    async with controller_client(tmp_path) as one:
        stranger = one.nodes.scripted_broker(one.connection, 7)
        assert (await stranger.beat()).error_code == ErrorCode.STALE_BROKER_EPOCH
        (broker,) = await one.join(1)
        broker.epoch -= 1
        assert (await broker.beat()).error_code == ErrorCode.STALE_BROKER_EPOCH


# --- a single controller

BEGUN = (features(), broker(1), broker(2), topic("t", 1), partition(1, 0, [1, 2]))


async def test_heartbeat_waiting_for_its_turn_extends_the_session(mock_clock):
    """The response is sent after a long decision, but the session is extended when the heartbeat is read."""
    async with solo(*BEGUN) as one:

        def long():
            yield 1_000_000
            yield 1_000_000

        one.active.operations.submit(long())
        mock_clock.jump(3.0)
        one.begin(broker_heartbeat, one.beat_request(1))
        assert one.active.leases.get(1, 101).deadline == trio.current_time() + SESSION
        with pytest.raises(KafkaError) as refused:
            one.begin(broker_heartbeat, one.beat_request(1, epoch=7))
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


async def test_stopping_broker_waits_only_for_its_first_handover(
    mock_clock,
):
    async with solo(*BEGUN) as one:
        await one.beat(2, offset=0)
        assert not (await one.beat(1, want_shut_down=True)).should_shut_down
        taken = one.log.log_end_offset - 1
        await one.settle()
        lease = one.active.leases.get(1, 101)
        assert (lease.shutdown_offset, lease.draining) == (taken, False)
        at_once(one.active.write(Result([config("retention.ms", "1")], None)))
        assert not (await one.beat(1, want_shut_down=True)).should_shut_down
        await one.settle()
        assert one.active.leases.get(1, 101).shutdown_offset == taken
        await one.beat(2, offset=taken)
        answer = await one.beat(1, want_shut_down=True)
        assert (answer.should_shut_down, answer.is_fenced) == (True, True)
        assert one.active.leases.get(1, 101) is None, "it may come back at once"


async def test_stopping_broker_hands_many_leaderships_over_in_parts(mock_clock, monkeypatch):
    for module in (decisions, own_decisions):
        monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 2)
    many = [partition(1, index, [2, 1]) for index in range(1, 6)]
    async with solo(*BEGUN, *many) as one:
        await one.beat(2, offset=0)
        await one.beat(1, want_shut_down=True)
        assert one.active.leases.get(1, 101).draining
        await one.settle()
        assert not one.active.leases.get(1, 101).draining
        assert {found.isr for found in one.partitions().values()} == {(2,)}
        assert one.active.leases.get(1, 101).shutdown_offset == one.log.log_end_offset - 1


async def test_broker_fenced_while_stopping_starts_over(mock_clock, monkeypatch):
    """Otherwise the remaining partitions of its first shutdown would stop it after its return."""
    for module in (decisions, own_decisions):
        monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 1)
    many = [partition(1, index, [2, 1]) for index in range(1, 30)]
    async with solo(*BEGUN, *many) as one:
        await one.beat(2)
        await one.beat(1, want_shut_down=True)
        lease = one.active.leases.get(1, 101)
        assert lease.draining
        at_once(one.active.write(Result([changed_broker(1, fenced=1)], None)))
        assert (await one.beat(1, want_fence=True)).is_fenced
        await one.settle()
        assert (lease.shutdown_offset, lease.draining) == (-1, False)
        assert any(1 in found.isr for found in one.partitions().values()), (
            "it is not going any more"
        )
        answer = await one.beat(1)
        assert (answer.is_fenced, answer.should_shut_down) == (False, False)


async def test_unfinished_handover_does_not_affect_next_incarnation(mock_clock, monkeypatch):
    for module in (decisions, own_decisions):
        monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 1)
    many = [partition(1, index, [2, 1]) for index in range(1, 30)]
    async with solo(*BEGUN, *many) as one:
        await one.beat(2)
        await one.beat(1, want_shut_down=True)
        one.active.leases.end(1)  # as with another broker's registration
        await one.settle()
        assert any(1 in found.isr for found in one.partitions().values())


async def test_latest_heartbeat_determines_brokers_metadata_offset(mock_clock):
    async with solo(*BEGUN) as one:
        for offset in (7, 9):
            await one.beat(1, offset=offset)
            assert one.active.leases.get(1, 101).metadata_offset == offset


@pytest.mark.parametrize(
    ("records", "is_woken"),
    [
        ((broker(1, fenced=True), partition(1, 0, [1, 2], isr=[2], leader=-1)), True),
        ((broker(1), partition(1, 0, [1, 2], isr=[2], leader=-1)), False),  # no change
        ((broker(1, fenced=True), partition(1, 0, [2])), False),  # there is no partition to lead
    ],
)
async def test_unfencing_step_wakes_election_of_remaining_leaders(mock_clock, records, is_woken):
    async with solo(features(), broker(2, fenced=True), topic("t", 1), *records) as one:
        one.active.leaders_wanted = AutoResetEvent()
        await one.beat(1)
        assert one.active.leaders_wanted.is_set() is is_woken


async def test_connection_of_last_heartbeat_represents_the_broker(mock_clock):
    async with solo(*BEGUN) as one:
        first = one.connection
        await one.beat(1)
        one.connection = one.connect(2)
        await one.beat(1)
        lease = one.active.leases.get(1, 101)
        first.mark_closed()
        assert not lease.disconnected
        one.connection.mark_closed()
        assert (lease.disconnected, lease.connection_id) == (True, None)
        one.connection = one.connect(3)
        await one.beat(1)
        assert not lease.disconnected


async def test_changes_of_heartbeat_may_span_batches(mock_clock, monkeypatch):
    """The log accepts ten thousand records at once, and a broker may lead more partitions."""
    monkeypatch.setattr(active_controller, "RECORDS_PER_BATCH", 2)
    many = [partition(1, index, [1, 2]) for index in range(1, 3)]
    async with solo(*BEGUN, *many) as one:
        assert (await one.beat(1, want_fence=True)).is_fenced
        assert [len(batch) for batch in one.log.batches] == [2, 2]
