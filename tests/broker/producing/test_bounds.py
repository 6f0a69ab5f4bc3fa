"""Stages of Produce at their limits: versions, budgets, and the number of partitions in one turn."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.batches import batch
from tests.broker.calls import Paused, call, connection, finished, started, through_wire
from tests.broker.producing.stages import validate_now
from tests.checks import check_each
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.handlers.produce import produce
from trimaran.broker.producing.append import append
from trimaran.broker.producing.await_replicas import _outcome, replicated
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.broker.producing.validate import _check, _try, authorize, find_leaders, validate
from trimaran.broker.producing.verify import check_not_ended, must_verify, verify
from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.batches.records import NewRecord, Record, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.message_sets import build_message_set
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

E = ErrorCode
VERSION = 13


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    return harness


@pytest.fixture
def rules(harness):
    return harness.leader("t").replica.settings.rules


def append_of(topic="t", index=0, records=b""):
    answer = PartitionProduceResponse(index=index, base_offset=-1)
    return PartitionAppend(TopicPartition(topic, index), None, memoryview(records), answer)


def state_of(one):
    names = ("key", "partition", "leader", "batches", "required_offset", "verified_from", "failed")
    return {name: getattr(one, name) for name in names}


def test_request_part_begins_empty_and_keeps_error():
    one = append_of("t", 3, b"records")
    begun = {
        "key": ("t", 3),
        "partition": None,
        "leader": None,
        "batches": (),
        "required_offset": None,
        "verified_from": None,
        "failed": False,
    }
    assert state_of(one) == begun
    assert one.response == PartitionProduceResponse(
        index=3, base_offset=-1, current_leader=LeaderIdAndEpoch()
    )
    one.response.base_offset = 7
    one.refuse(E.CORRUPT_MESSAGE, "why")
    assert state_of(one) == begun | {"failed": True}
    assert one.response == PartitionProduceResponse(
        index=3, error_code=E.CORRUPT_MESSAGE, error_message="why", base_offset=-1
    )


def test_returned_error_holds_no_frames():
    """The frames hold the decompressed records."""
    try:
        try:
            raise ValueError("of what was decompressed")
        except ValueError:
            raise KafkaError(E.INVALID_RECORD, "one") from None
    except KafkaError as error:
        kept = error
    append_of().fail(kept)
    assert (kept.__traceback__, kept.__context__) == (None, None)


# -- versions


def message_set():
    record = Record(0, 1_700_000_000_000, b"k", b"v", ())
    return bytearray(build_message_set([record], magic=1, compression=Compression.NONE))


@pytest.mark.parametrize("version", [0, 2, 3, 4, VERSION])
def test_batches_are_returned_in_old_versions_too(rules, version):
    data = memoryview(bytearray(bytes(batch(b"v"))))
    assert [batch.count for batch in _check(data, rules, now_ms(), version)] == [1]


@pytest.mark.parametrize("version", [0, 2, 3, VERSION])
def test_message_sets_convert_up_to_version_2(rules, version):
    data = memoryview(message_set())
    if version < 3:
        (found,) = _check(data, rules, now_ms(), version)
        assert (found.magic, found.count) == (2, 1)
        return
    for stage in (_try, _check):
        with pytest.raises(KafkaError) as error:
            stage(data, rules, now_ms(), version)
        assert error.value.code is E.INVALID_RECORD


@pytest.mark.parametrize("version", [0, 1, 2, 3, VERSION])
def test_old_versions_are_never_checked_on_loop(harness, version):
    one = append_of(records=bytes(batch(b"v")))
    found = validate_now([one], harness.partitions, version)
    if version < 3:
        assert isinstance(found, Paused)
        assert (one.batches, one.failed) == ((), False)
    else:
        assert [found.count for found in one.batches] == [1]


def zeros(size):
    """Returns records of roughly this many bytes when decompressed."""
    record = NewRecord(None, bytes(size), now_ms())
    return memoryview(bytearray(build_batch([record], compression=Compression.ZSTD)))


@pytest.mark.parametrize(("size", "is_tried"), [((8 << 20) - 1000, True), ((8 << 20) + 1, False)])
def test_expansion_up_to_8_mebibytes_is_tried_first(rules, size, is_tried):
    assert (_try(zeros(size), rules, now_ms(), VERSION) is not None) == is_tried


async def test_stages_pause_after_each_of_several_partitions(harness):
    def pauses(stage):
        effects = list(stage)
        assert not any(effects)
        return len(effects)

    for count, expected in ((1, 0), (2, 2), (300, 300)):
        parts = [append_of("t", index % 2, bytes(batch(b"v"))) for index in range(count)]
        assert pauses(authorize(parts, lambda _topic: True)) == expected
        started(find_leaders(parts, harness.partitions))
        assert pauses(validate(parts, now_ms, VERSION)) == expected
        assert pauses(append(parts, 1, harness.partitions.traffic)) == expected
        assert pauses(find_leaders(parts, harness.partitions)) == 0, "their logs are open"
        assert {part.response.error_code for part in parts} == {E.NONE}


@pytest.mark.parametrize("count", [1, 201])
async def test_every_unknown_topic_id_is_answered(harness, count):
    data = [PartitionProduceData(index=index, records=batch(b"v")) for index in range(count)]
    topics = [TopicProduceData(topic_id=topic_id("none"), partition_data=data)]
    message = through_wire(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), VERSION)
    response = started(
        produce(message, harness.contexts.data, call(message, VERSION, connection()))
    )
    codes = [
        partition_response.error_code
        for partition_response in response.responses[0].partition_responses
    ]
    assert codes == [E.UNKNOWN_TOPIC_ID] * count


# -- waits for replicas


def watermark(offset, *, closed=False):
    return SimpleNamespace(offset=offset, closed=closed)


def leader_of(offset, *, closed=False, satisfies_min_isr=True):
    return SimpleNamespace(
        high_watermark=watermark(offset, closed=closed), satisfies_min_isr=satisfies_min_isr
    )


@pytest.mark.parametrize("satisfies_min_isr", [True, False])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("offset", [4, 5, 6])
def test_required_offset_is_answered_as_naive_twin(offset, closed, satisfies_min_isr):
    leader = leader_of(offset, closed=closed, satisfies_min_isr=satisfies_min_isr)
    if offset >= 5:
        expected = E.NONE if closed or satisfies_min_isr else E.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    else:
        expected = E.NOT_LEADER_OR_FOLLOWER if closed else E.REQUEST_TIMED_OUT
    assert _outcome(leader, 5) is expected
    one = append_of()
    one.leader, one.required_offset = leader, 5
    assert replicated([one]) == (offset >= 5 or closed)
    assert replicated([append_of(), one]) == (offset >= 5 or closed)


# -- verification


class Producers:
    """A coordinator that notes its calls; producer epochs below `epoch` have ended, and `open` are those in a
    transaction.
    """

    def __init__(self, *, epoch=0, opened=(), ended=False):
        self.asked, self.epoch, self.opened, self.ended = [], epoch, opened, ended

    def check_epoch(self, producer_id, epoch):
        self.asked.append(("epoch", producer_id, epoch))
        if epoch < self.epoch:
            raise KafkaError(E.INVALID_PRODUCER_EPOCH, "over")

    def in_transaction(self, producer_id, epoch):
        return (producer_id, epoch) in self.opened

    def verifying(self, batch, *, has_own_epoch):
        self.asked.append(("verifying", batch.producer_id, batch.base_sequence, has_own_epoch))

    def ended_since(self, producer_id, offset):
        self.asked.append(("ended", producer_id, offset))
        return self.ended


def transactional(topic="t", index=0, producer_id=7, epoch=0, sequence=0, producers=None, end=4):
    data = bytes(
        batch(
            b"a",
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
    )
    one = append_of(topic, index, data)
    one.batches = list(iter_batches(bytearray(data)))
    one.leader = SimpleNamespace(
        log=SimpleNamespace(producers=producers or Producers(), log_end_offset=end)
    )
    return one


class Coordinator:
    def __init__(self, codes=None):
        self.asked, self.codes = [], codes or {}

    def checking_produce(self, transactional_id, producer, partitions, version):
        self.asked.append((transactional_id, tuple(producer), sorted(partitions), version))
        return {key: self.codes.get(key, E.NONE) for key in partitions}
        yield


def some():
    """Returns batches of two producers, in two topics and two partitions."""
    producers = Producers()
    return producers, [
        transactional("t", 0, producers=producers, end=0),
        transactional("t", 1, sequence=5, producers=producers, end=4),
        transactional("u", 0, producer_id=8, epoch=2, producers=producers, end=9),
    ]


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
async def test_verification_boundary_changes_with_version_12(version):
    producers, parts = some()
    coordinator = Coordinator({("t", 1): E.INVALID_TXN_STATE})
    await finished(verify(parts, coordinator, "x", version))
    has_own_epoch = version >= 12
    assert [asked for asked in producers.asked if asked[0] == "verifying"] == [
        ("verifying", 7, 0, has_own_epoch),
        ("verifying", 7, 5, has_own_epoch),
        ("verifying", 8, 0, has_own_epoch),
    ]
    ends = [None, None, None] if has_own_epoch else [0, 4, 9]
    assert [part.verified_from for part in parts] == ends
    expected = [
        ("x", (7, 0), [("t", 0), ("t", 1)], version),
        ("x", (8, 2), [("u", 0)], version),
    ]
    assert coordinator.asked == expected
    codes = [part.response.error_code for part in parts]
    assert codes == [E.NONE, E.INVALID_TXN_STATE, E.NONE]


def test_only_sound_new_transactional_batches_are_verified():
    failed, empty, plain = transactional(), transactional(), transactional()
    failed.refuse(E.CORRUPT_MESSAGE)
    empty.batches = []
    plain.batches = [BatchView(memoryview(bytearray(bytes(batch(b"a")))))]
    over = transactional(epoch=1, producers=Producers(epoch=2))
    opened = transactional(epoch=2, producers=Producers(opened=[(7, 2)]))
    other_epoch = transactional("u", epoch=3, producers=Producers(epoch=2, opened=[(7, 2)]))
    new = transactional("v", epoch=2, producers=Producers(epoch=2))
    parts = [failed, empty, plain, over, opened, other_epoch, new]
    coordinator = Coordinator()
    assert started(verify(parts, coordinator, "x", VERSION)) is None
    assert [partitions for _, _, partitions, _ in coordinator.asked] == [[("u", 0)], [("v", 0)]]
    codes = [part.response.error_code for part in parts]
    assert codes == [E.CORRUPT_MESSAGE, E.NONE, E.NONE, E.INVALID_PRODUCER_EPOCH, *[E.NONE] * 3]
    assert ("epoch", 7, 2) in new.leader.log.producers.asked
    for transactional_id in (None, ""):
        again = [empty, plain, transactional(producers=Producers())]
        assert started(verify(again, Coordinator(), transactional_id, VERSION)) is None
        codes = [part.response.error_code for part in again]
        assert codes == [E.NONE, E.NONE, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        assert again[-1].leader.log.producers.asked == []
        assert not must_verify(again[-1], transactional_id)


def test_marker_after_verification_voids_it():
    def check(ended):
        one = transactional(producers=Producers(ended=ended))
        one.verified_from = 3
        if ended:
            with pytest.raises(KafkaError) as error:
                check_not_ended(one)
            assert error.value.code is E.INVALID_TXN_STATE
            assert error.value.message == "the transaction was ended before the batch came"
        else:
            check_not_ended(one)
        assert one.leader.log.producers.asked == [("ended", 7, 3)]

    check_each((True, False), check)
