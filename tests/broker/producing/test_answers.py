"""Responses for each partition of a Produce request: layout, offsets, times, watermarks and ISR."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing

from tests.broker.batches import append as append_one
from tests.broker.batches import batch
from tests.broker.calls import Paused, call, finished, started, through_wire
from tests.broker.producing.stages import append_now, settle, validate_all, validate_now
from tests.checks import check_each
from tests.cluster.data_side import open_harness, partition, registration, topic, topic_id
from trimaran.broker.partitions.isr import FetchClock
from trimaran.broker.producing.await_replicas import await_disk, await_replicas, replicated
from trimaran.broker.producing.partition_append import PartitionAppend, refusal, resolve
from trimaran.broker.producing.validate import authorize, may_use_transactional_id
from trimaran.log.batches.records import NewRecord, Record, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.message_sets import build_message_set
from trimaran.log.validation.rejected_records import RejectedRecords
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

E = ErrorCode
BY_NAME, BY_ID = 12, 13
ALL, LEADER = -1, 1
BOTH = (11, 12)
LITERAL = PatternType.LITERAL


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(
        topic("t", partition(BOTH), partition(BOTH)),
        topic("u", partition()),
        topic("followed", partition(BOTH, leader=12)),
        brokers=(registration(11), registration(12)),
    )
    return harness


def request(*asked, version=BY_ID):
    """Returns a request; each of `asked` is a topic and its indexes."""
    topics = [
        TopicProduceData(
            name=name if version == BY_NAME else "",
            topic_id=topic_id(name) if version == BY_ID else bytes(16),
            partition_data=[
                PartitionProduceData(index=index, records=batch(b"v")) for index in indexes
            ],
        )
        for name, *indexes in asked
    ]
    return through_wire(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), version)


def unasked(index):
    """Returns a partition for which no stage has looked up the leader."""
    answer = PartitionProduceResponse(index=index, base_offset=-1)
    return PartitionAppend(TopicPartition("t", index), None, memoryview(b""), answer)


def answers(response, version=BY_ID):
    response = through_wire(response, version)
    return [
        (
            each_response.name if version == BY_NAME else each_response.topic_id,
            [(p.index, p.error_code, p.base_offset) for p in each_response.partition_responses],
        )
        for each_response in response.responses
    ]


def shown(name, version):
    return name if version == BY_NAME else topic_id(name)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_answer_follows_order_of_request(harness, version):
    asked = (("u", 3), ("t", 1, 0), ("nowhere", 5))
    response, appends = started(resolve(request(*asked, version=version), harness.partitions))
    nowhere = "nowhere" if version == BY_NAME else ""
    named = [("u", 3), ("t", 1), ("t", 0), (nowhere, 5)]
    assert [append.key for append in appends] == named
    assert [len(append.records) for append in appends] == [len(batch(b"v"))] * 4
    code = E.NONE if version == BY_NAME else E.UNKNOWN_TOPIC_ID
    assert answers(response, version) == [
        (shown("u", version), [(3, E.NONE, -1)]),
        (shown("t", version), [(1, E.NONE, -1), (0, E.NONE, -1)]),
        (shown("nowhere", version), [(5, code, -1)]),
    ]
    assert [append.failed for append in appends] == [False] * 3 + [version == BY_ID]
    leaders = {
        (
            partition_response.current_leader.leader_id,
            partition_response.current_leader.leader_epoch,
        )
        for found in response.responses
        for partition_response in found.partition_responses
    }
    assert leaders == {(-1, -1)}
    refused = refusal(
        request(*asked, version=version), KafkaError(E.INVALID_REQUIRED_ACKS, "acks 7")
    )
    code = E.INVALID_REQUIRED_ACKS
    assert answers(refused, version) == [
        (shown("u", version), [(3, code, -1)]),
        (shown("t", version), [(1, code, -1), (0, code, -1)]),
        (shown("nowhere", version), [(5, code, -1)]),
    ]
    messages = {
        p.error_message for response in refused.responses for p in response.partition_responses
    }
    assert messages == {"acks 7"}


def validated(harness, *asked):
    _, appends = started(resolve(request(*asked), harness.partitions))
    validate_now(appends, harness.partitions)
    return appends


async def test_answer_contains_offset_time_and_log_start(harness):
    at_append = {(TOPIC_RESOURCE, "t"): {"message.timestamp.type": "LogAppendTime"}}
    harness.set_image(topic("t", partition()), topic("u", partition()), configs=at_append)
    for name in "tu":
        for _ in range(3):
            append_one(harness, b"before", name=name)
    harness.flush()
    harness.leader("u").log.delete_records_before(2)
    before = now_ms()
    by_append, by_client = appends = validated(harness, ("t", 0), ("u", 0))
    append_now(appends, ALL, harness)
    assert (by_append.response.base_offset, by_client.response.base_offset) == (3, 3)
    assert before <= by_append.response.log_append_time_ms <= now_ms()
    assert by_client.response.log_append_time_ms == -1
    assert by_append.response.log_start_offset == 0
    assert by_client.response.log_start_offset == 2
    assert (by_append.required_offset, by_client.required_offset) == (4, 4)


async def test_failing_append_delays_no_other(harness, monkeypatch):
    (full,) = validated(harness, ("t", 0))
    (sound,) = validated(harness, ("u", 0))
    code = [E.NOT_ENOUGH_REPLICAS]

    def refuse():
        raise KafkaError(code[-1], "as it is")

    monkeypatch.setattr(type(full.leader), "append", _for(full.leader, refuse))
    append_now([full, sound], ALL, harness)
    assert (full.failed, full.response.error_code) == (True, E.NOT_ENOUGH_REPLICAS)
    assert full.response.error_message == "as it is"
    assert (sound.failed, sound.response.base_offset) == (False, 0)
    code.append(E.KAFKA_STORAGE_ERROR)
    (full,) = validated(harness, ("t", 0))
    append_now([full], ALL, harness)
    assert full.response.error_code == E.KAFKA_STORAGE_ERROR


def _for(leader, act):
    """Replaces a method for one leader."""
    original = type(leader).append

    def append(one, *arguments, **options):
        return act() if one is leader else original(one, *arguments, **options)

    return append


async def test_failed_or_empty_partitions_are_not_appended(harness):
    failed, empty, without_leader, sound = validated(
        harness, ("t", 0), ("t", 1), ("followed", 0), ("u", 0)
    )
    failed.refuse(E.CORRUPT_MESSAGE)
    empty.batches = ()
    append_now([failed, empty, without_leader, sound], ALL, harness)
    assert without_leader.response.error_code == E.NOT_LEADER_OR_FOLLOWER
    ends = [harness.leader("t", index).log.log_end_offset for index in (0, 1)]
    assert (ends, sound.response.base_offset) == ([0, 0], 0)
    assert [append.required_offset for append in (failed, empty)] == [None, None]


# -- acks=all


def fetched(harness, index, offset):
    harness.leader("t", index).record_fetch(12, offset, 0, 112, FetchClock())


async def appended(harness):
    appends = validated(harness, ("t", 0, 1))
    append_now(appends, ALL, harness)
    harness.flush()
    return appends


async def test_unreplicated_partitions_time_out(harness):
    both = first, second = await appended(harness)
    failed = unasked(7)
    failed.refuse(E.UNKNOWN_TOPIC_OR_PARTITION)
    assert not replicated([failed, *both])
    assert not replicated([second])
    fetched(harness, 0, 1)
    assert replicated([failed, first])
    assert not replicated(both)
    await settle([failed, *both])
    codes = [append.response.error_code for append in (failed, first, second)]
    assert codes == [E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE, E.REQUEST_TIMED_OUT]
    assert [side.response.base_offset for side in both] == [0, -1]


async def test_ended_leader_epoch_is_not_waited_for(harness):
    both = first, second = await appended(harness)
    fetched(harness, 1, 1)
    moved = partition(BOTH, leader=12, leader_epoch=5)
    harness.set_image(topic("t", moved, moved))
    assert replicated(both)
    await settle(both)
    assert first.response.error_code == E.NOT_LEADER_OR_FOLLOWER
    assert second.response.error_code == E.NONE, "it was committed before"


async def test_commit_below_minimum_isr_is_reported(harness):
    both = await appended(harness)
    for index in (0, 1):
        fetched(harness, index, 1)
    configs = {(TOPIC_RESOURCE, "t"): {"min.insync.replicas": "2"}}
    alone = partition(BOTH, isr=(11,), partition_epoch=1)
    fenced = (registration(11), registration(12, fenced=True))
    harness.set_image(topic("t", alone, alone), configs=configs, brokers=fenced)
    await settle(both)
    codes = [side.response.error_code for side in both]
    assert codes == [E.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 2
    refused = validated(harness, ("t", 0, 1))
    append_now(refused, ALL, harness)
    await settle(refused)
    codes = [append.response.error_code for append in refused]
    assert codes == [E.NOT_ENOUGH_REPLICAS] * 2, "nothing was appended"


async def test_minimum_isr_is_ignored_after_epoch_end(harness):
    (one,) = validated(harness, ("t", 0))
    append_now([one], ALL, harness)
    harness.flush()
    fetched(harness, 0, 1)
    configs = {(TOPIC_RESOURCE, "t"): {"min.insync.replicas": "2"}}
    fenced = (registration(11), registration(12, fenced=True))
    alone = partition(BOTH, isr=(11,), partition_epoch=1)
    harness.set_image(topic("t", alone), configs=configs, brokers=fenced)
    assert not one.leader.satisfies_min_isr
    harness.set_image(topic("t", partition(BOTH, leader=12, leader_epoch=5)))
    await settle([one])
    assert one.response.error_code == E.NONE


async def test_replication_wait_ends_with_last_or_timeout(harness, mock_clock, nursery):
    both = await appended(harness)
    done = []

    async def wait(timeout_ms):
        await finished(await_replicas(both, timeout_ms))
        done.append(trio.current_time() - began)

    began = trio.current_time()
    nursery.start_soon(wait, 5000)
    nursery.start_soon(wait, 2000)
    for index, expected in ((0, []), (1, [])):
        assert done == expected
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1)
        if index == 0:
            fetched(harness, 0, 1)
            await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()
    assert done == [2]
    mock_clock.jump(1)
    fetched(harness, 1, 1)
    await trio.testing.wait_all_tasks_blocked()
    assert done == [2, 3]


async def test_wait_continues_past_an_ended_epoch(harness, nursery, mock_clock):
    both = await appended(harness)
    done = []

    async def wait():
        await finished(await_replicas(both, 5000))
        done.append(True)

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    moved = partition(BOTH, leader=12, leader_epoch=5)
    harness.set_image(topic("t", moved, partition(BOTH)))
    await trio.testing.wait_all_tasks_blocked()
    assert done == []
    fetched(harness, 1, 1)
    await trio.testing.wait_all_tasks_blocked()
    assert done == [True]


# -- acks other than all


async def test_only_appends_behind_full_disk_wait(harness, monkeypatch):
    first, second = appends = validated(harness, ("t", 0), ("u", 0))
    second.refuse(E.CORRUPT_MESSAGE)
    append_now(appends, LEADER, harness)
    assert started(await_disk(appends)) is None
    monkeypatch.setattr(type(first.leader), "disk_is_behind", property(lambda _: True))
    no_leader = unasked(9)
    assert started(await_disk([no_leader, second])) is None
    waiting = started(await_disk([*appends, no_leader]))
    assert not waiting.ready()
    harness.flush()
    assert waiting.ready()


async def test_stuck_disk_is_awaited_ten_seconds(harness, nursery, mock_clock):
    nursery.start_soon(harness.group_commit.run)
    appends = validated(harness, ("t", 0), ("t", 1))
    append_now(appends, LEADER, harness)
    waited = []

    async def held(_leader, offset):
        waited.append(offset)
        await trio.sleep_forever()

    no_leader = unasked(9)
    done = []
    for append in appends:
        object.__setattr__(append, "leader", _Waiting(held))

    async def wait():
        await finished(await_disk([no_leader, *appends]))
        done.append(True)

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(9.999)
    await trio.testing.wait_all_tasks_blocked()
    assert (waited, done) == ([1], [])
    mock_clock.jump(0.001)
    await trio.testing.wait_all_tasks_blocked()
    assert done == [True]


class _Waiting:
    """A leader for which only the flush is awaited."""

    def __init__(self, wait):
        self._wait = wait

    disk_is_behind = True

    async def wait_flushed(self, offset):
        await self._wait(self, offset)


# -- rights


async def test_only_authorized_topics_proceed(harness):
    _, appends = started(resolve(request(("t", 0), ("u", 0), ("nowhere", 0)), harness.partitions))
    asked = []

    def may_write(name):
        asked.append(name)
        return name != "t"

    started(authorize(appends, may_write))
    assert asked == ["t", "u"], "what failed before is not asked about"
    codes = [append.response.error_code for append in appends]
    assert codes == [E.TOPIC_AUTHORIZATION_FAILED, E.NONE, E.UNKNOWN_TOPIC_ID]


def transactional():
    return batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)


async def test_transactional_batch_needs_write_on_its_id(harness):
    """This holds for any of the batches; without a transactional one, the right is not checked."""
    plain, mixed = (batch(b"a"), batch(b"b")), (batch(b"a"), transactional())
    allowed = {
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID): True,
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID): False,
        (Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID): False,
        (Operation.WRITE, ResourceType.TOPIC): False,
        (Operation.WRITE, ResourceType.GROUP): False,
    }

    def check(right):
        operation, kind = right
        authorizer = Authorizer()
        authorizer.complete_initial_load()
        authorizer._index.add(
            Acl(kind, "x", LITERAL, "User:ANONYMOUS", "*", operation, Permission.ALLOW)
        )
        ctx = replace(harness.contexts.data, authorizer=authorizer)
        asked = call(ProduceRequest(acks=1, timeout_ms=0, topic_data=[]), BY_ID)
        for name, records, expected in (
            ("x", mixed, allowed[right]),
            ("y", mixed, False),
            (None, mixed, False),
            ("y", plain, True),
            (None, plain, True),
        ):
            assert may_use_transactional_id(name, some(*records), ctx, asked) is expected

    check_each(allowed, check)


def some(*records):
    return [
        PartitionAppend(
            TopicPartition("t", index),
            None,
            record,
            PartitionProduceResponse(index=index, base_offset=0),
        )
        for index, record in enumerate(records)
    ]


async def test_errors_of_records_are_named_one_by_one():
    (one,) = some(batch(b"a"))
    one.fail(RejectedRecords(E.INVALID_RECORD, "two", {3: "no key", 5: "too old"}))
    found = [
        (each.batch_index, each.batch_index_error_message) for each in one.response.record_errors
    ]
    assert found == [(3, "no key"), (5, "too old")]
    assert (one.failed, one.response.error_code) == (True, E.INVALID_RECORD)


# -- refused records


def in_thread(harness, *asked, version=BY_ID):
    """Validates in a thread, as large requests are; each of `asked` is a topic, an index and its records."""
    appends = [
        PartitionAppend(
            TopicPartition(name, index),
            None,
            memoryview(records),
            PartitionProduceResponse(index=index, base_offset=0),
        )
        for name, index, records in asked
    ]
    return appends, validate_all(appends, harness.partitions, version)


async def test_only_appendable_records_are_checked_in_thread(harness):
    """Failed partitions keep their error, and internal topics accept no records of clients."""
    appends, checked = in_thread(
        harness,
        ("t", 0, batch(b"a")),
        ("__consumer_offsets", 0, batch(b"b")),
        ("t", 1, batch(b"c")),
    )
    appends[0].refuse(E.TOPIC_AUTHORIZATION_FAILED)
    await checked
    codes = [append.response.error_code for append in appends]
    assert codes == [E.TOPIC_AUTHORIZATION_FAILED, E.INVALID_TOPIC_EXCEPTION, E.NONE]
    assert [len(append.batches) for append in appends] == [0, 0, 1]
    assert isinstance(validate_now(appends, harness.partitions, version=2), Paused)
    internal = some(batch(b"a"))
    internal[0].key = TopicPartition("__transaction_state", 0)
    validate_now(internal, harness.partitions)
    assert internal[0].response.error_code == E.INVALID_TOPIC_EXCEPTION


async def test_named_record_errors_are_limited_to_10000(harness):
    """One more batch is named in full, then none: clients treat a batch without names as refused as a whole."""
    compacted = {(TOPIC_RESOURCE, "t"): {"cleanup.policy": "compact"}}
    harness.set_image(topic("t", *[partition()] * 5), configs=compacted)
    sizes = (6_000, 4_000, 3, 2, 1)
    appends, checked = in_thread(
        harness, *(("t", index, without_keys(size)) for index, size in enumerate(sizes))
    )
    await checked
    assert {append.response.error_code for append in appends} == {E.INVALID_RECORD}
    assert [len(append.response.record_errors) for append in appends] == [6_000, 4_000, 3, 0, 0]


async def test_message_sets_are_limited_to_versions_0_2(harness):
    """Message sets of these versions are checked in a thread, even if the data is cut next to the magic byte."""
    record = Record(0, 1_700_000_000_000, b"k", b"v", ())
    old = bytearray(build_message_set([record], magic=1, compression=Compression.NONE))
    for version, code in (
        (0, E.NONE),
        (2, E.NONE),
        (3, E.INVALID_RECORD),
        (BY_ID, E.INVALID_RECORD),
    ):
        (one,), checked = in_thread(harness, ("t", 0, old), version=version)
        await checked
        assert one.response.error_code == code, version
        assert bool(one.batches) == (code is E.NONE)
    for size in range(40):
        (one,), checked = in_thread(harness, ("t", 0, bytearray(bytes(batch(b"v"))[:size])))
        await checked
        assert one.response.error_code in (E.INVALID_RECORD, E.CORRUPT_MESSAGE), size
        (one,), checked = in_thread(harness, ("t", 0, old[: min(size, 16)]), version=2)
        await checked
        assert (one.response.error_code, one.batches) == (E.NONE, []), size


def without_keys(count):
    return bytearray(build_batch([NewRecord(None, b"", now_ms())] * count))
