"""Stages of Produce at their bounds: versions, budgets, and how many partitions go in one turn."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.batches import batch
from tests.broker.calls import call, connection, finished, through_wire
from tests.checks import check_each
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.handlers.produce import produce
from trimaran.broker.producing import append as append_stage
from trimaran.broker.producing import validate as validate_stage
from trimaran.broker.producing.append import append_in_turns
from trimaran.broker.producing.authorize import authorize_in_turns
from trimaran.broker.producing.await_replicas import _outcome, replicated
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.broker.producing.validate import _check, _try, validate, validate_in_turns
from trimaran.broker.producing.verify import check_not_ended, is_verified_here, unverified, verify
from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.batches.records import NewRecord, Record, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.message_sets import build_message_set
from trimaran.log.validation.validate import Budget, OverBudget
from trimaran.node.runtime import turns as turns_module
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
from trimaran.wire.transport.requests.calls import DeferredResponse

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


@pytest.fixture
def turns(monkeypatch):
    """One entry for each turn that others have had."""
    taken = []

    async def turn():
        taken.append(True)

    monkeypatch.setattr(turns_module, "yield_to_loop", turn)
    return taken


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
        "required_offset": -1,
        "verified_from": -1,
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
    """They hold what was decompressed."""
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
def test_budget_applies_from_version_3_on(rules, version):
    data = memoryview(bytearray(bytes(batch(b"v"))))
    found = _try(data, rules, now_ms(), version)
    if version < 3:
        assert found is None
    else:
        assert [one.count for one in found] == [1]
    assert [one.count for one in _check(data, rules, now_ms(), version)] == [1]


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
    if version < 3:
        with pytest.raises(OverBudget):
            validate([one], harness.partitions, now_ms=now_ms(), version=version)
        assert (one.leader, one.failed) == (None, False)
    else:
        validate([one], harness.partitions, now_ms=now_ms(), version=version)
        assert [found.count for found in one.batches] == [1]


def zeros(size):
    """So many bytes of records when they are decompressed, roughly."""
    record = NewRecord(None, bytes(size), now_ms())
    return memoryview(bytearray(build_batch([record], compression=Compression.ZSTD)))


@pytest.mark.parametrize(("size", "is_tried"), [((8 << 20) - 1000, True), ((8 << 20) + 1, False)])
def test_expansion_up_to_8_mebibytes_is_tried_first(rules, size, is_tried):
    assert (_try(zeros(size), rules, now_ms(), VERSION) is not None) == is_tried


def test_a_budget_is_that_of_all_partitions_together(harness):
    def appends():
        return [append_of("t", index, zeros(1_000_000)) for index in (0, 1)]

    budget = Budget(1_500_000)
    with pytest.raises(OverBudget):
        validate(appends(), harness.partitions, now_ms=now_ms(), version=VERSION, budget=budget)
    validate(appends(), harness.partitions, now_ms=now_ms(), version=VERSION)


async def test_a_budget_is_that_of_all_turns_together(harness, monkeypatch):
    monkeypatch.setattr(validate_stage, "VALIDATED_PER_TURN", 1)
    appends = [append_of("t", index % 2, zeros(900_000)) for index in range(3)]
    with pytest.raises(OverBudget):
        await validate_in_turns(appends, harness.partitions, now_ms=now_ms, version=VERSION)
    assert [bool(one.batches) for one in appends] == [True, True, False]


# -- turns


@pytest.mark.parametrize(("count", "expected"), [(199, 0), (200, 1), (399, 1), (400, 2)])
async def test_two_hundred_partitions_are_validated_in_a_turn(harness, turns, count, expected):
    appends = [append_of("none", index) for index in range(count)]
    await validate_in_turns(appends, harness.partitions, now_ms=now_ms, version=VERSION)
    assert len(turns) == expected
    assert {one.response.error_code for one in appends} == {E.UNKNOWN_TOPIC_OR_PARTITION}


async def test_authorization_and_appends_cover_all_in_turns(turns, monkeypatch):
    monkeypatch.setattr("trimaran.broker.producing.authorize.JUDGED_PER_TURN", 3)
    monkeypatch.setattr(append_stage, "OPENED_PER_TURN", 4)
    appends = [append_of("t" if index % 2 else "u", index) for index in range(9)]
    await authorize_in_turns(appends, lambda name: name == "t")
    assert [one.response.error_code for one in appends] == [
        E.NONE if index % 2 else E.TOPIC_AUTHORIZATION_FAILED for index in range(9)
    ]
    assert len(turns) == 3
    turns.clear()
    seen = []
    monkeypatch.setattr(
        append_stage,
        "append",
        lambda some, acks: seen.append(([one.key.partition for one in some], acks)),
    )
    await append_in_turns(appends, 1)
    assert seen == [([0, 1, 2, 3], 1), ([4, 5, 6, 7], 1), ([8], 1)]
    assert len(turns) == 2


@pytest.mark.parametrize(("count", "is_deferred"), [(1, False), (200, False), (201, True)])
async def test_request_over_200_partitions_takes_several_turns(harness, count, is_deferred):
    data = [PartitionProduceData(index=index, records=batch(b"v")) for index in range(count)]
    topics = [TopicProduceData(topic_id=topic_id("none"), partition_data=data)]
    message = through_wire(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), VERSION)
    answer = produce(message, harness.context, call(message, VERSION, connection()))
    assert isinstance(answer, DeferredResponse) == is_deferred
    response = await finished(answer) if is_deferred else answer
    codes = [one.error_code for one in response.responses[0].partition_responses]
    assert codes == [E.UNKNOWN_TOPIC_ID] * count


# -- what waits for replicas


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
    """Notes its calls; the epoch below `epoch` is over, `open` are those in a transaction."""

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
    def __init__(self, codes=None, *, knows=True):
        self.asked, self.codes, self.knows = [], codes or {}, knows

    def check_produce_now(self, transactional_id, producer, partitions, version):
        self.asked.append((transactional_id, tuple(producer), sorted(partitions), version))
        return self.knows

    async def check_produce(self, transactional_id, producer, partitions, version):
        self.check_produce_now(transactional_id, producer, partitions, version)
        return {key: self.codes.get(key, E.NONE) for key in partitions}


def some():
    """Batches of two producers, in two topics and two partitions."""
    producers = Producers()
    return producers, [
        transactional("t", 0, producers=producers, end=0),
        transactional("t", 1, sequence=5, producers=producers, end=4),
        transactional("u", 0, producer_id=8, epoch=2, producers=producers, end=9),
    ]


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
async def test_verification_boundary_changes_with_version_12(version):
    producers, appends = some()
    coordinator = Coordinator({("t", 1): E.INVALID_TXN_STATE})
    await verify(appends, coordinator, "x", version)
    has_own_epoch = version >= 12
    assert producers.asked == [
        ("verifying", 7, 0, has_own_epoch),
        ("verifying", 7, 5, has_own_epoch),
        ("verifying", 8, 0, has_own_epoch),
    ]
    ends = [-1, -1, -1] if has_own_epoch else [0, 4, 9]
    assert [one.verified_from for one in appends] == ends
    expected = [
        ("x", (7, 0), [("t", 0), ("t", 1)], version),
        ("x", (8, 2), [("u", 0)], version),
    ]
    assert coordinator.asked == expected
    codes = [one.response.error_code for one in appends]
    assert codes == [E.NONE, E.INVALID_TXN_STATE, E.NONE]
    producers.asked.clear()
    here = Coordinator()
    assert is_verified_here(appends, here, "x", version)
    assert here.asked == expected
    assert [has_own for *_, has_own in producers.asked] == [has_own_epoch] * 3
    assert not is_verified_here(appends, Coordinator(knows=False), "x", version)


def test_only_sound_new_transactional_batches_are_verified():
    failed, empty, plain = transactional(), transactional(), transactional()
    failed.refuse(E.CORRUPT_MESSAGE)
    empty.batches = []
    plain.batches = [BatchView(memoryview(bytearray(bytes(batch(b"a")))))]
    over = transactional(epoch=1, producers=Producers(epoch=2))
    opened = transactional(epoch=2, producers=Producers(opened=[(7, 2)]))
    other_epoch = transactional(epoch=3, producers=Producers(epoch=2, opened=[(7, 2)]))
    new = transactional(epoch=2, producers=Producers(epoch=2))
    appends = [failed, empty, plain, over, opened, other_epoch, new]
    assert unverified(appends, "x") == [other_epoch, new]
    codes = [one.response.error_code for one in appends]
    assert codes == [E.CORRUPT_MESSAGE, E.NONE, E.NONE, E.INVALID_PRODUCER_EPOCH, *[E.NONE] * 3]
    assert new.leader.log.producers.asked == [("epoch", 7, 2)]
    for transactional_id in (None, ""):
        again = [empty, plain, transactional(producers=Producers())]
        assert unverified(again, transactional_id) == []
        codes = [one.response.error_code for one in again]
        assert codes == [E.NONE, E.NONE, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        assert again[-1].leader.log.producers.asked == []


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
