"""Detection of dead brokers: sessions that end, processes that no longer listen."""

import pytest
import trio

from tests.quorum.controller.solo import solo
from tests.quorum.metadata.build import (
    broker,
    changed_broker,
    features,
    image_of,
    partition,
    topic,
)
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller import active_controller
from trimaran.quorum.controller.nodes import liveness
from trimaran.quorum.controller.nodes.liveness import ProbeResult
from trimaran.quorum.controller.tasks import fencing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.brokers import UnregisterBrokerRecord

SESSION = 9.0
# Written here again, so that a changed time fails a test.
FIRST_HEARTBEAT_SECONDS, PROBE_AGAIN_SECONDS, PROBE_INTERVAL_SECONDS = 2.5, 10.0, 0.25
LATE_SECONDS, READING_SECONDS, WRITE_AGAIN_SECONDS = 0.1, 0.5, 1.0
RECORDS = (
    features(),
    broker(1),
    broker(2),
    topic("t", 1),
    *(partition(1, index, [1, 2]) for index in range(3)),
)


async def test_silent_broker_is_fenced_after_its_session(autojump_clock):
    async with solo(*RECORDS) as one:
        await trio.sleep(1)
        await one.beat(2)
        await trio.sleep(SESSION - 1.01)
        assert one.fenced == []
        await trio.sleep(0.02)
        assert one.fenced == [1]
        assert all(found.isr == (2,) for found in one.partitions().values())
        assert one.active.leases.get(1, 101) is None
        await trio.sleep(1)
        assert one.fenced == [1, 2]


async def test_late_broker_also_gets_whole_session(autojump_clock):
    """The late broker had no lease when the controller looked for the next expiry."""
    async with solo(features(), broker(1, fenced=True)) as one:
        await trio.sleep(SESSION / 2)
        assert not (await one.beat(1)).is_fenced
        await trio.sleep(SESSION - 0.01)
        assert one.fenced == []
        await trio.sleep(0.02)
        assert one.fenced == [1]


async def test_fenced_or_missing_broker_loses_only_its_lease(autojump_clock):
    async with solo(*RECORDS) as one:
        gone = UnregisterBrokerRecord(broker_id=2, broker_epoch=102)
        one.active.image = image_of(changed_broker(1, fenced=1), gone, base=one.active.image)
        await trio.sleep(SESSION + 0.01)
        assert one.active.leases.next_deadline() is None
        assert one.log.batches == []


async def test_failed_fencing_is_retried_shortly_after(autojump_clock):
    """The broker stays unfenced, and its lease is extended, but by less than a whole session."""
    async with solo(*RECORDS) as one:
        await trio.sleep(SESSION - 1)
        await one.beat(2)
        one.log.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
        await trio.sleep(1.01)
        assert one.fenced == []
        assert one.active.leases.get(1, 101) is not None
        one.log.refuses = None
        await trio.sleep(WRITE_AGAIN_SECONDS - 0.02)
        assert one.fenced == []
        await trio.sleep(0.03)
        assert one.fenced == [1]


async def test_blocked_controller_reads_waiting_heartbeats_before_fencing(mock_clock):
    """Heartbeats sent during the block wait to be read; the time that the controller overslept does not count."""
    async with solo(*RECORDS) as one:
        mock_clock.jump(SESSION + 20)
        await one.settle()
        assert one.fenced == []
        left = one.active.leases.get(1, 101).deadline - trio.current_time()
        assert left == pytest.approx(READING_SECONDS)
        mock_clock.jump(READING_SECONDS + LATE_SECONDS / 2)
        await one.settle()
        assert one.fenced == [1, 2]


async def test_broker_with_ended_process_is_fenced_at_once(autojump_clock):
    """The broker's connection closes, and its port refuses connections."""
    async with solo(*RECORDS) as one:
        await one.beat(1)
        one.silent.add(9001)
        await trio.sleep(1)
        assert one.fenced == [], "its connection is there"
        one.connection.mark_closed()
        await trio.sleep(PROBE_INTERVAL_SECONDS / 2)
        assert one.fenced == [1]


async def test_disconnected_broker_is_probed_repeatedly(autojump_clock):
    """The broker died with the previous controller, or its listener stayed open a moment longer than its connection."""
    async with solo(*RECORDS) as one:
        await trio.sleep(1)
        one.silent.add(9001)
        await trio.sleep(FIRST_HEARTBEAT_SECONDS - 1 - 0.01)
        assert one.fenced == [], "it may heartbeat yet"
        await trio.sleep(PROBE_INTERVAL_SECONDS)
        assert one.fenced == [1]


async def test_broker_unknown_to_controller_keeps_its_lease(autojump_clock):
    """The broker may be behind NAT: neither a new controller nor a closed connection is evidence that its process has
    ended.
    """
    async with solo(*RECORDS, silent={9001, 9002}) as one:
        await trio.sleep(3)
        assert one.fenced == []
        await one.beat(1)
        await one.beat(2)
        one.connection.mark_closed()
        await trio.sleep(3)
        assert one.fenced == []
        one.connection = one.connect(2)
        await one.beat(1)
        await trio.sleep(SESSION - 3 + 0.01)
        assert one.fenced == [2]


async def test_endpoint_answering_second_probe_counts_as_reached(autojump_clock):
    async with solo(features(), broker(1, fenced=True), silent={9001}) as one:
        await one.beat(1)
        await trio.sleep(PROBE_AGAIN_SECONDS / 2)
        one.silent.clear()
        await one.beat(1)
        await trio.sleep(PROBE_AGAIN_SECONDS / 2 + 0.01)
        one.silent.add(9001)
        one.connection.mark_closed()
        await trio.sleep(PROBE_INTERVAL_SECONDS / 2)
        assert one.fenced == [1]


async def test_heartbeat_permanently_disproves_earlier_refusal(autojump_clock):
    """The broker answered once; then its port mapping was removed while it is alive."""
    async with solo(*RECORDS) as one:
        one.silent.add(9001)
        await trio.sleep(1)
        # the first heartbeat at this controller; the address now refuses connections
        await one.beat(1)
        await trio.sleep(3)
        one.connection.mark_closed()
        await trio.sleep(3)
        assert one.fenced == []


async def test_incarnation_at_new_port_is_probed_there(autojump_clock):
    async with solo(*RECORDS) as one:
        await one.beat(1)
        again = broker(1, epoch=500, port=9101)
        one.silent |= {9001, 9101}
        at_once(one.active.write(Result([again], None)))
        await one.settle()
        await one.beat(1, epoch=500)
        one.connection.mark_closed()
        await trio.sleep(SESSION - 1)
        assert one.image.cluster.brokers[1].epoch == 500
        assert one.fenced == []


async def test_refusal_by_unreached_address_proves_nothing(autojump_clock, monkeypatch):
    """The advertised name now has another address; the broker answered at the previous one."""

    async def probe(_listeners):
        await trio.lowlevel.checkpoint()
        return ProbeResult(refused=frozenset({("other", 9001)}), is_down=True)

    async with solo(features(), broker(1)) as one:
        await one.beat(1)
        monkeypatch.setattr(liveness, "probe", probe)
        one.connection.mark_closed()
        await trio.sleep(SESSION - 1)
        assert one.fenced == []


async def test_heartbeat_during_probe_keeps_broker_alive(autojump_clock, monkeypatch):
    looked = trio.Event()

    async def probe(_listeners):
        looked.set()
        await trio.sleep(0.1)
        return ProbeResult(refused=frozenset({("h", 9001)}), is_down=True)

    async with solo(features(), broker(1)) as one:
        await one.beat(1)
        monkeypatch.setattr(liveness, "probe", probe)
        one.connection.mark_closed()
        await looked.wait()
        one.connection = one.connect(2)
        await one.beat(1)
        await trio.sleep(1)
        assert one.fenced == []


async def test_probe_of_replaced_incarnation_is_ignored(autojump_clock):
    async with solo(features(), broker(1)) as one:
        await one.beat(1)
        one.silent.add(9001)
        one.active.suspect(1, 99)
        one.active.suspect(7, 107)
        await trio.sleep(1)
        assert one.fenced == []


async def test_broker_stopped_during_probe_is_left_alone(autojump_clock):
    async with solo(features(), broker(1)) as one:
        await one.beat(1)
        one.silent.add(9001)
        one.connection.mark_closed()
        one.active.leases.end(1)
        await trio.sleep(1)
        assert one.fenced == []


@pytest.mark.parametrize(
    ("news", "fenced"),
    [
        (broker(1, epoch=500), []),  # another incarnation, which is alive
        (UnregisterBrokerRecord(broker_id=1, broker_epoch=101), []),
        (changed_broker(1, fenced=1), [1]),
    ],
)
async def test_partial_fencing_ends_when_broker_is_gone(autojump_clock, monkeypatch, news, fenced):
    monkeypatch.setattr(fencing, "PARTITIONS_PER_STEP", 1)
    async with solo(*RECORDS) as one:

        async def change_at_the_first_part():
            while not one.log.batches:
                await trio.lowlevel.checkpoint()
            at_once(one.active.write(Result([news], None)))

        await trio.sleep(SESSION - 1)
        await one.beat(2)
        await trio.sleep(0.999)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change_at_the_first_part)
            nursery.start_soon(fencing._fence, one.active, 1, 101, "a test says so")
        await one.settle()
        assert one.fenced == fenced
        written = [record for batch in one.log.batches for record in batch]
        assert written.count(changed_broker(1, fenced=1)) == len(fenced)


async def test_changes_of_fencing_may_span_batches(autojump_clock, monkeypatch):
    """The log accepts ten thousand records at once, and a broker may have more partitions."""
    monkeypatch.setattr(active_controller, "RECORDS_PER_BATCH", 2)
    async with solo(*RECORDS) as one:
        await one.beat(2)
        await fencing._fence(one.active, 1, 101, "a test says so")
        await one.settle()
        assert [len(batch) for batch in one.log.batches] == [2, 1, 1]


async def test_partitions_joined_during_fencing_are_taken_away(autojump_clock, monkeypatch):
    monkeypatch.setattr(active_controller, "RECORDS_PER_BATCH", 2)
    monkeypatch.setattr(fencing, "PARTITIONS_PER_STEP", 1)
    joined = [partition(1, index, [1, 2]) for index in (3, 4, 5)]
    async with solo(*RECORDS) as one:
        await one.beat(2)

        async def join():
            while not one.log.batches:
                await trio.lowlevel.checkpoint()
            at_once(one.active.write(Result(joined, None)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join)
            nursery.start_soon(fencing._fence, one.active, 1, 101, "a test says so")
        await one.settle()
        assert one.fenced == [1]
        assert {found.isr for found in one.partitions().values()} == {(2,)}
        assert [len(batch) for batch in one.log.batches[-2:]] == [2, 2]


async def test_fencing_is_logged_with_its_reason(autojump_clock, caplog):
    caplog.set_level("INFO")
    async with solo(*RECORDS) as one:
        await one.beat(2)
        await fencing._fence(one.active, 1, 101, "its process has ended")
    assert "its process has ended" in caplog.text
