"""When a decision is answered, what an epoch starts from, and what ends with it."""

import pytest
import trio
import trio.testing

from tests.broker.calls import started
from tests.quorum.config_of import config_of
from tests.quorum.controller.solo import CLUSTER_ID, EPOCH, Log, solo
from tests.quorum.metadata.build import broker, config, features, image_of, partition, topic
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.controller import Controller, ControllerSettings
from trimaran.quorum.controller.tasks.standby import POLL_SECONDS
from trimaran.quorum.metadata.features import bootstrap_records
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.listener import CommittedBatch, LoadedSnapshot
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.transactions import BeginTransactionRecord


def standby(**settings):
    settings = {"bootstrap": (), "config": config_of()} | settings
    controller = Controller(ControllerSettings(CLUSTER_ID, **settings), MetadataLoader())
    controller.node = Log()
    return controller


def not_controller(ask):
    with pytest.raises(KafkaError) as refused:
        ask()
    return refused.value.code is ErrorCode.NOT_CONTROLLER


def decision(*records, response="made"):
    return lambda _active: Result(records, response)


async def test_inactive_controller_decides_nothing(mock_clock):
    controller = standby()
    assert not controller.is_active
    assert not_controller(lambda: started(controller.submit(decision(topic("t", 1)))))
    assert not_controller(controller.active)
    controller.connection_ended(1, 1)  # no broker is affected


async def test_answer_is_sent_after_commit(mock_clock):
    async with solo(features()) as one:
        one.log.held = True
        answer = started(one.controller.submit(decision(topic("t", 1))))
        asked_later = started(one.controller.submit(decision(response="looked")))
        assert (answer.ready(), asked_later.ready()) == (False, False)
        assert "t" in one.active.image.topics.by_name
        assert "t" not in one.image.topics.by_name
        one.log.held = False
        one.log.proposed.set()
        assert await answer.finish() == "made"
        assert await asked_later.finish() == "looked"
        assert answer.ready()
        assert "t" in one.image.topics.by_name
        assert started(one.controller.submit(decision())) == "made", "nothing is under way"


async def test_decision_longer_than_a_turn_is_answered(mock_clock):
    async with solo(features()) as one:

        def long(_active):
            yield 1_000_000
            yield 1_000_000
            return Result([topic("t", 1)], "made")

        answer = started(one.controller.submit(long))
        assert not answer.ready()
        assert await answer.finish() == "made"
        assert answer.ready()


@pytest.mark.parametrize("steps", [0, 2])
async def test_waiting_request_fails_when_epoch_ends(mock_clock, steps):
    async with solo(features()) as one:
        one.log.held = True

        def decide(_active):
            for _ in range(steps):
                yield 1_000_000
            return Result([topic("t", 1)], "made")

        answer = started(one.controller.submit(decide))
        one.active.close()
        assert not_controller(lambda: started(one.controller.submit(decision())))
        with pytest.raises(KafkaError) as refused:
            await answer.finish()
        assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_uncommitted_changes_vanish_with_their_epoch(mock_clock):
    """Another leader may have other records there; the next epoch starts from the committed state."""
    controller, log = standby(), Log()
    controller.node = log
    controller.apply_committed(log.appended([features()], 1))
    for epoch in (5, 6):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(controller.lead, epoch)
            await trio.testing.wait_all_tasks_blocked()
            active = controller.active()
            assert (active.epoch, active.next_offset) == (epoch, log.log_end_offset)
            assert active.committed.offset == 1001
            assert "t" not in active.image.topics.by_name
            assert log.metadata_version == 30
            at_once(active.write(Result([topic("t", 1), features(29)], None)))
            assert log.metadata_version == 29
            nursery.cancel_scope.cancel()
        assert not controller.is_active


async def test_inactive_controller_maintains_index_for_leadership(autojump_clock, monkeypatch):
    """The first decision of its epoch therefore need not wait for a scan of every partition."""
    monkeypatch.setattr("trimaran.quorum.controller.tasks.standby.PARTITIONS_PER_STEP", 1)
    controller = standby()
    records = [features(), topic("t", 1), *(partition(1, index, [1]) for index in range(3))]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        controller.apply_committed(controller.node.appended(records, 1))
        await trio.sleep(POLL_SECONDS * 2)
        with trio.testing.assert_no_checkpoints():
            index = await controller._standby.acquire()
        assert index.topics is controller.loader.image.topics
        nursery.cancel_scope.cancel()


async def test_begin_and_end_of_epoch_are_logged(mock_clock, caplog):
    caplog.set_level("INFO")
    async with solo(features()):
        assert [record.args["epoch"] for record in caplog.records] == [EPOCH]
    assert [record.args["epoch"] for record in caplog.records] == [EPOCH, EPOCH]


async def test_epoch_ends_with_first_commit_of_later_one(mock_clock):
    async with solo(features()) as one:
        one.log.held = True
        answer = started(one.controller.submit(decision(topic("t", 1))))
        end = one.log.log_end_offset
        for last, epoch, ends in ((end - 2, EPOCH, True), (end - 1, EPOCH, False)):
            one.controller.apply_committed(CommittedBatch(last, last, epoch, 1, 1, [], ends=ends))
            assert not answer.ready(), "a part of a batch is none"
        one.controller.apply_committed(CommittedBatch(end, end, EPOCH + 1, 1, 1, []))
        with pytest.raises(KafkaError) as refused:
            await answer.finish()
        assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_records_have_the_committed_level():
    """A standby may have to lead at once; without a level it does not know which versions of records to write."""
    controller = standby()
    controller.node.metadata_version = 30
    controller.apply_committed(CommittedBatch(0, 0, 1, 1, 1, []))
    assert controller.node.metadata_version == 30
    controller.apply_committed(CommittedBatch(1, 1, 1, 1, 1, [features(17)], ends=False))
    assert controller.node.metadata_version == 30
    controller.apply_committed(CommittedBatch(2, 2, 1, 1, 1, [config("a", "b")]))
    assert controller.node.metadata_version == 17
    whole = LoadedSnapshot(end_offset=9, epoch=1, appended_at_ms=1, records=[features(20)])
    controller.load_snapshot(whole)
    assert controller.node.metadata_version == 20


async def test_empty_log_gets_formatted_metadata(mock_clock):
    controller = standby(
        bootstrap=[*bootstrap_records(), config("a", "b")],
        config=config_of(min_insync_replicas="2"),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.lead, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert controller.active().committed.offset == 0
        (batch,) = controller.node.batches
        assert isinstance(batch[0], BeginTransactionRecord)
        assert config("min.insync.replicas", "2", (4, "")) in batch
        assert image_of(*batch).features.metadata_version == controller.node.metadata_version == 33
        nursery.cancel_scope.cancel()


async def test_heartbeat_without_lease_ignores_its_connection(
    mock_clock,
):
    async with solo(features(), broker(1)) as one:
        one.controller.watch(one.connection, 1, 7)
        one.connection.mark_closed()
        assert one.active.leases.get(1, 101).connection_id is None
        assert not one.active.suspected.is_set()
        one.controller.connection_ended(one.connection.id, 9)
        assert not one.active.suspected.is_set()
