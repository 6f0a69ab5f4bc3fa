"""Writes in one epoch of the active controller: all of a decision or nothing, published at its end."""

import pytest
import trio

from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import broker, config, features, image_of, partition, topic, uid
from trimaran.node.replicated import state_machine
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller import active_controller as module
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.controller.tasks import own_decisions
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.brokers import UnregisterBrokerRecord
from trimaran.wire.records.topics import PartitionChangeRecord, RemoveTopicRecord

IMAGE = image_of(features(), broker(1), broker(2), topic("old", 1), partition(1, 0, [1, 2]))
END = 100
TOPIC = [topic("t", 7), *(partition(7, index, [1, 2]) for index in range(5))]


class Log:
    """The node's part: batches as they were proposed; `fails_at` is the number of a batch that it refuses."""

    def __init__(self):
        self.batches, self.resigned, self.fails_at = [], 0, None

    def encode(self, records):
        for _ in records:
            yield 1
        return b"%d records" % len(records)

    def propose(self, records, epoch, batch):
        assert batch == b"%d records" % len(records)
        if len(self.batches) == self.fails_at:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "no room")
        self.batches.append((epoch, list(records)))
        return END - 1 + sum(len(batch) for _, batch in self.batches)

    def resign(self):
        self.resigned += 1


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def active_controller(log):
    index = PartitionIndex.of(IMAGE.topics)
    return ActiveController(
        5, log, IMAGE, index, config_of(), applied_end=END, log_end=END, session_seconds=9.0
    )


def is_whole(active_controller):
    return active_controller.state.index == PartitionIndex.of(active_controller.image.topics)


def test_decision_is_written_as_one_batch(active_controller, log):
    assert at_once(active_controller.write(Result(TOPIC, "made"))) == "made"
    assert log.batches == [(5, TOPIC)]
    assert active_controller.next_offset == END + len(TOPIC)
    assert active_controller.image.provenance.offset == END + len(TOPIC) - 1
    assert len(active_controller.image.topics.by_name["t"].partitions) == 5
    assert is_whole(active_controller)


def test_decision_becomes_visible_as_whole(active_controller, log, monkeypatch):
    """The image and the end of the log advance together; a step is the work of one record."""
    monkeypatch.setattr(state_machine, "RECORDS_PER_STEP", 1)
    changed = [PartitionChangeRecord(topic_id=uid(1), partition_id=0, isr=[1])]
    seen = []
    for done in active_controller.write(Result([*TOPIC, *changed], None)):
        assert done == 1
        seen.append((len(log.batches), active_controller.image is IMAGE))
    records = len(TOPIC) + len(changed)
    encoded, replayed, indexed = records, records, 6
    expected = [(0, True)] * encoded + [(1, True)] * replayed + [(1, False)] * indexed
    assert seen == expected
    assert is_whole(active_controller)


@pytest.mark.parametrize("steps", [0, 1, len(TOPIC)])
def test_epoch_ending_before_append_leaves_no_change(active_controller, log, steps):
    operation = active_controller.submit(_slowly(active_controller, Result(TOPIC, None), steps))
    active_controller.close()
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        _ = operation.response
    assert log.batches == []
    assert active_controller.image is IMAGE


def _slowly(active_controller, result, steps):
    """Writes a result: the first steps run in this turn, the others in the next one."""
    writing = active_controller.write(result)
    for _ in range(steps):
        next(writing)
    yield 1_000_000
    return (yield from writing)


def test_refused_append_changes_nothing(active_controller, log):
    log.fails_at = 0
    with pytest.raises(KafkaError) as refused:
        at_once(active_controller.write(Result(TOPIC, None)))
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert (active_controller.image, active_controller.next_offset, log.resigned) == (IMAGE, END, 0)
    log.fails_at = None
    at_once(
        active_controller.write(Result([RemoveTopicRecord(topic_id=uid(1))], None))
    )  # the next decision is made
    assert is_whole(active_controller)


def test_non_atomic_decision_is_split_into_batches(active_controller, log, monkeypatch):
    monkeypatch.setattr(module, "RECORDS_PER_BATCH", 4)
    at_once(active_controller.write(Result(TOPIC, None, atomic=False)))
    assert [len(records) for _, records in log.batches] == [4, 2]
    assert is_whole(active_controller)


def test_splittable_batch_has_at_most_10000_records(active_controller, log):
    """The limit is that of Kafka: a reader of the log never holds more records at once."""
    many = [partition(7, index, [1]) for index in range(10_000)]
    at_once(active_controller.write(Result([topic("t", 7), *many], None, atomic=False)))
    assert [len(records) for _, records in log.batches] == [10_000, 1]


def test_reregistered_broker_must_reach_its_last_registration(active_controller):
    """The same incarnation keeps its epoch; it has caught up when it has read its last registration."""

    def registered_at():
        return active_controller.registered_at(active_controller.image.cluster.brokers[1])

    def write(*records):
        at_once(active_controller.write(Result(records, None)))

    assert registered_at() == 101
    write(broker(2), broker(1))
    assert registered_at() == END + 1
    write(UnregisterBrokerRecord(broker_id=1, broker_epoch=101))
    assert active_controller._registered_at.keys() == {2}, "an unregistered broker takes no memory"
    write(broker(1, epoch=END + 3))
    assert registered_at() == END + 3


@pytest.mark.parametrize(
    ("records", "is_woken"),
    [
        ([config("unclean.leader.election.enable", "true")], True),
        ([config("retention.ms", "1")], False),
        ([broker(3)], False),
    ],
)
def test_newly_unclean_topic_wakes_the_election(active_controller, records, is_woken):
    """The leaderless partition of the topic need not wait for the next round."""
    at_once(active_controller.write(Result(records, None)))
    assert active_controller.unclean_wanted.is_set() is is_woken


def test_closed_connection_wakes_broker_checks(active_controller):
    active_controller.suspect(1, 101)
    assert active_controller.suspects == {1: 101}
    assert active_controller.suspected.is_set()


def test_interrupted_change_ends_the_epoch(active_controller, log, monkeypatch):
    """The log has a part of the records that the state does not have."""
    monkeypatch.setattr(module, "RECORDS_PER_BATCH", 4)
    log.fails_at = 1
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        at_once(active_controller.write(Result(TOPIC, None, atomic=False)))
    assert log.resigned == 1
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        at_once(active_controller.write(Result([], None)))


def test_unreplayable_record_ends_the_epoch(active_controller, log):
    change = PartitionChangeRecord(topic_id=uid(99), partition_id=0)
    with pytest.raises(Exception, match="does not exist"):
        at_once(active_controller.write(Result([change], None)))
    assert log.resigned == 1
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        at_once(active_controller.write(Result([], None)))


async def test_epoch_end_cancels_tasks_without_errors(active_controller):
    """The tasks are cancelled; a task that wakes at that moment cannot get another turn."""
    active_controller.close()
    with trio.CancelScope() as epoch:
        epoch.cancel()
        await own_decisions.perform(active_controller, active_controller.write(Result(TOPIC, None)))
    assert epoch.cancelled_caught


async def test_commits_of_later_epoch_answer_no_requests(active_controller):
    """The records of the later epoch are at our offsets: ours are lost."""
    deferred = active_controller.submit(active_controller.write(Result(TOPIC, "made")))
    active_controller.applied(END + 1, 5)
    active_controller.applied(active_controller.next_offset, 6)
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        await deferred.wait()
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        at_once(active_controller.write(Result(TOPIC, "made")))


def test_image_that_cannot_be_made_ends_the_epoch(active_controller, log, monkeypatch):
    def fail(_self, _delta, _last_offset):
        yield 1
        raise ValueError("broken")

    monkeypatch.setattr(ActiveController, "_apply", fail)
    with pytest.raises(ValueError, match="broken"):
        at_once(active_controller.write(Result(TOPIC, "made")))
    assert (log.resigned, active_controller.committed.closed) == (1, True)
