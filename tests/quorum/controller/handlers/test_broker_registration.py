"""BrokerRegistration: a starting broker gets its epoch, and its id stays unique."""

import pytest
import trio

from tests.quorum.controller.handlers.controller_client import controller_client, standby_client
from tests.quorum.controller.nodes.test_brokers import registration
from tests.quorum.controller.solo import CLUSTER_ID, solo
from tests.quorum.metadata.build import broker, change, features, partition, topic, uid
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller import active_controller
from trimaran.quorum.controller.handlers import broker_registration as module
from trimaran.quorum.controller.handlers.broker_heartbeat import broker_heartbeat
from trimaran.quorum.controller.handlers.broker_registration import broker_registration
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.broker_registration import Feature


async def test_new_broker_is_fenced_and_has_epoch(tmp_path):
    async with controller_client(tmp_path) as one:
        broker = one.nodes.scripted_broker(one.connection, 1)
        assert await broker.register() == 0
        found = one.image.cluster.brokers[1]
        assert (found.epoch, found.fenced) == (broker.epoch, True)


async def test_second_process_with_live_brokers_id_is_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        other = one.nodes.scripted_broker(one.connection, 1, incarnation=1)
        assert await other.register() == ErrorCode.DUPLICATE_BROKER_REGISTRATION


async def test_invalid_registrations_are_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        broker = one.nodes.scripted_broker(one.connection, 1)
        old = Feature(name="metadata.version", min_supported_version=1, max_supported_version=2)
        codes = [
            await broker.register(cluster_id="another"),
            await broker.register(features=[old]),
        ]
        assert codes == [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION]
        assert 1 not in one.image.cluster.brokers


@pytest.mark.slow
async def test_inactive_controller_answers_not_controller(tmp_path):
    async with standby_client(tmp_path) as one:
        broker = one.nodes.scripted_broker(one.connection, 1)
        assert await broker.register() == ErrorCode.NOT_CONTROLLER


# --- a single controller

SESSION = 9.0
NEW, SAME = registration(), registration(incarnation_id=uid(1))


async def register(one, request):
    """Registers the broker and returns its epoch."""
    assert request.cluster_id == CLUSTER_ID
    return (await one.call(broker_registration, request)).broker_epoch


async def code_of(one, request):
    with pytest.raises(KafkaError) as refused:
        await register(one, request)
    return refused.value.code


async def test_second_process_may_register_after_first_session_ends(mock_clock):
    async with solo(features(), broker(1, fenced=True)) as one:
        assert not (await one.beat(1)).is_fenced
        mock_clock.jump(SESSION - 0.01)
        assert await code_of(one, NEW) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        mock_clock.jump(0.01)
        assert await register(one, NEW) > 101


async def test_new_listener_at_disconnected_brokers_address_replaces_it(
    mock_clock,
):
    async with solo(features(), broker(1)) as one:
        await one.beat(1)
        assert await code_of(one, NEW) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        one.connection.mark_closed()
        elsewhere = NEW.replace(listeners=[NEW.listeners[0].replace(port=1)])
        assert await code_of(one, elsewhere) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert await register(one, NEW) > 101


async def test_lease_belongs_to_one_incarnation(mock_clock):
    """The same incarnation keeps its lease when it registers again; another one's session begins with its first
    heartbeat.
    """
    async with solo(features(), broker(1)) as one:
        assert await register(one, SAME) == 101
        assert one.active.leases.of(1) is not None
        one.connection.mark_closed()
        await one.settle()
        epoch = await register(one, NEW)
        assert one.active.leases.of(1) is None
        assert (await one.beat(1, epoch=epoch, offset=epoch)).error_code == 0
        assert one.active.leases.of(1).broker_epoch == epoch


async def test_broker_epoch_is_offset_of_its_registration(mock_clock):
    async with solo(features(), broker(1, fenced=True), broker(2)) as one:
        end = one.log.log_end_offset
        assert await register(one, NEW) == end
        assert one.image.cluster.brokers[1].epoch == end


@pytest.mark.parametrize(("in_step", "batches"), [(5, 1), (2, 4)])
async def test_leaderships_of_replaced_process_move_in_parts(
    mock_clock, monkeypatch, in_step, batches
):
    """All of this happens before the new process is registered."""
    monkeypatch.setattr(module, "PARTITIONS_PER_STEP", in_step)
    many = [partition(1, index, [1, 2]) for index in range(5)]
    async with solo(features(), broker(1), broker(2), topic("t", 1), *many) as one:
        one.active.leases.end(1)
        await register(one, NEW)
        assert len(one.log.batches) == batches
        assert {(found.leader, found.isr) for found in one.partitions().values()} == {(2, (2,))}


async def test_replaced_process_with_heartbeat_loses_no_more_leaderships(mock_clock, monkeypatch):
    """The heartbeat arrives while the registration of the other process takes away the leaderships in batches."""
    monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 1)
    many = [partition(1, index, [1, 2]) for index in range(5)]
    async with solo(features(), broker(1), broker(2), topic("t", 1), *many) as one:
        one.active.leases.end(1)

        async def live():
            while not one.log.batches:
                await trio.lowlevel.checkpoint()
            one.begin(broker_heartbeat, one.beat_request(1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(live)
            assert await code_of(one, NEW) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert [found.leader for found in one.partitions().values()].count(1) >= 3


async def test_partition_without_other_leader_is_examined_once(mock_clock, monkeypatch):
    """The broker stays in the ISR of partitions whose only replica it is."""
    monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 2)
    alone = [partition(1, index, [1]) for index in range(5)]
    async with solo(features(), broker(1), topic("t", 1), *alone) as one:
        one.active.leases.end(1)
        await register(one, NEW)
        assert len(one.log.batches) == 4
        assert {found.leader for found in one.partitions().values()} == {-1}


async def test_handover_step_may_span_batches(mock_clock, monkeypatch):
    monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 2)
    monkeypatch.setattr(active_controller, "RECORDS_PER_BATCH", 1)
    many = [partition(1, index, [1, 2]) for index in range(3)]
    async with solo(features(), broker(1), broker(2), topic("t", 1), *many) as one:
        one.active.leases.end(1)
        await register(one, NEW)
        assert [len(batch) for batch in one.log.batches] == [1] * 4


async def test_partitions_joined_during_replacement_are_taken_away(mock_clock, monkeypatch):
    """Another step gave the partition to the broker after its partitions were examined."""
    monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 2)
    many = [partition(1, index, [1, 2]) for index in range(4)]
    joined = partition(1, 4, [2, 1], isr=[2])
    async with solo(features(), broker(1), broker(2), topic("t", 1), *many, joined) as one:
        one.active.leases.end(1)

        async def join():
            while not one.log.batches:
                await trio.lowlevel.checkpoint()
            at_once(one.active.write(Result([change(1, 4, isr=[2, 1])], None)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join)
            await register(one, NEW)
        assert [change(1, 4, isr=[2, 1])] in one.log.batches[:-1]
        assert {found.isr for found in one.partitions().values()} == {(2,)}


async def test_registration_waiting_at_epoch_end_gets_not_controller(mock_clock):
    async with solo(features()) as one:
        one.log.held = True
        async with trio.open_nursery() as nursery:
            found = []

            async def ask():
                found.append(await code_of(one, NEW))

            nursery.start_soon(ask)
            await one.settle()
            one.active.close()
        assert found == [ErrorCode.NOT_CONTROLLER]
