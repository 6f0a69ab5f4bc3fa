"""Produce: acks, duplicates, bad batches (reliability 4.3), timeouts, the end of an epoch."""

from __future__ import annotations

import gc

import pytest
import trio
import trio.testing

from tests.broker.batches import batch
from tests.broker.calls import Paused, call, finished, started, through_wire
from tests.cluster.data_side import open_harness, partition, registration, replaced, topic, topic_id
from trimaran.broker.handlers.produce import _fail_all, produce
from trimaran.broker.partitions.isr import FetchClock
from trimaran.broker.partitions.watermark_waits import FLUSH_SECONDS_MAX
from trimaran.broker.process.failed_directories import FailedDirectories
from trimaran.log.batches.batch import TimestampType
from trimaran.log.batches.records import NewRecord, RecordHeader, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.durability.group_commit import UNFLUSHED_BYTES_MAX
from trimaran.log.validation.rejected_records import RECORDS_NAMED_MAX
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.errors import CloseConnection, ErrorCode
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSION = 12


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    return harness


def request(records, *, acks=-1, index=0, name="t", timeout_ms=60_000, version=VERSION, **fields):
    named = {"topic_id": topic_id(name)} if version >= 13 else {"name": name}
    message = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                **named, partition_data=[PartitionProduceData(index=index, records=records)]
            )
        ],
        **fields,
    )
    return through_wire(message, version)


def start(harness, message, version=VERSION):
    return started(produce(message, harness.contexts.data, call(message, version)))


async def ask(harness, records, version=VERSION, **fields):
    """Returns the partition's response, after a flush if it is deferred."""
    response = start(harness, request(records, version=version, **fields), version)
    harness.flush()
    return (await finished(response)).responses[0].partition_responses[0]


async def test_acks_all_waits_until_it_is_on_disk(harness):
    response = start(harness, request(batch(b"a", b"b")))
    assert isinstance(response, Paused)
    assert not response.ready()
    harness.flush()
    assert response.ready()
    answer = (await response.finish()).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 0, -1)


async def test_acks_one_answers_after_the_append(harness):
    response = start(harness, request(batch(b"a"), acks=1))
    assert response.responses[0].partition_responses[0].base_offset == 0
    assert harness.leader().high_watermark.offset == 0, "not on disk yet"


async def test_acks_zero_is_unanswered_and_errors_disconnect(harness):
    assert start(harness, request(batch(b"a"), acks=0)) is None
    assert harness.leader().log.log_end_offset == 1
    with pytest.raises(CloseConnection):
        start(harness, request(batch(b"a"), acks=0, index=7))


def written_too_fast(harness, acks):
    """Returns the second response."""
    large = batch(bytes(UNFLUSHED_BYTES_MAX // 2))
    start(harness, request(large, acks=acks))
    return start(harness, request(large, acks=acks))


@pytest.mark.parametrize("acks", [1, 0])
async def test_producer_waits_when_disk_is_too_slow(harness, acks):
    response = written_too_fast(harness, acks)
    assert isinstance(response, Paused)
    assert not response.ready()
    async with trio.open_nursery() as nursery:
        answered = trio.Event()

        async def waiting():
            found = await response.finish()
            assert (found is None) == (acks == 0)
            answered.set()

        nursery.start_soon(waiting)
        await trio.testing.wait_all_tasks_blocked()
        assert not answered.is_set()
        harness.flush()
        assert response.ready()
        await answered.wait()
    assert not isinstance(start(harness, request(batch(b"a"), acks=acks)), Paused)


async def test_wait_for_stuck_disk_is_bounded(harness, autojump_clock):
    response = written_too_fast(harness, acks=1)
    answer = (await response.finish()).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert trio.current_time() >= FLUSH_SECONDS_MAX


async def test_write_behind_waits_for_no_disk(tmp_path):
    harness = open_harness(tmp_path, trimaran_log_fsync="none")
    harness.set_image(topic("t", partition()))
    response = written_too_fast(harness, acks=1)
    assert response.responses[0].partition_responses[0].base_offset == 1


@pytest.mark.parametrize("acks", [2, -2, 32767])
async def test_other_acks_are_refused(harness, acks):
    answer = await ask(harness, batch(b"a"), acks=acks)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert harness.leader().log.log_end_offset == 0


async def test_unknown_topic_id_is_refused(harness):
    assert (await ask(harness, batch(b"a"), version=13)).base_offset == 0
    answer = await ask(harness, batch(b"a"), version=13, name="elsewhere")
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_non_leader_names_the_leader(harness):
    elsewhere = partition((11, 12), leader=12, leader_epoch=4)
    harness.set_image(
        topic("t", elsewhere), brokers=(registration(11), registration(12, port=7777))
    )
    message = request(batch(b"a"))
    response = start(harness, message)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (12, 4)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(12, 7777)]


async def test_too_small_isr_admits_nothing(harness):
    harness.set_image(
        topic("t", partition((11, 12), isr=(11,))), configs={(2, "t"): {"min.insync.replicas": "2"}}
    )
    answer = await ask(harness, batch(b"a"))
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert harness.leader().log.log_end_offset == 0, "no trace (P16)"
    assert (await ask(harness, batch(b"a"), acks=1)).error_code == 0


def two_wanted(harness, isr, partition_epoch):
    """Sets the ISR of "t", with min.insync.replicas=2; other replicas are fenced."""
    state = partition((11, 12), isr=isr, partition_epoch=partition_epoch)
    configs = {(2, "t"): {"min.insync.replicas": "2"}}
    brokers = (registration(11), registration(12, fenced=12 not in isr))
    harness.set_image(topic("t", state), brokers=brokers, configs=configs)


def fetched_by_12(harness, offset):
    clock = FetchClock()
    clock.tick(harness.now)
    harness.leader().record_fetch(12, offset, 0, 112, clock)


async def test_isr_that_became_too_small_acknowledges_nothing(harness):
    """P16, KAFKA-1555: only one replica keeps the records appended before."""
    two_wanted(harness, (11, 12), 0)
    response = start(harness, request(batch(b"a"), timeout_ms=0))
    two_wanted(harness, (11,), 1)
    harness.flush()
    assert not response.ready()
    answer = (await response.finish()).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_isr_too_small_before_answer_is_reported(harness):
    """Kafka's `Partition.checkEnoughReplicasReachOffset` does the same: the record was committed, but only one replica
    may have it when the response is sent.
    """
    two_wanted(harness, (11, 12), 0)
    response = start(harness, request(batch(b"a")))
    harness.flush()
    fetched_by_12(harness, 1)
    assert response.ready()
    two_wanted(harness, (11,), 1)
    answer = (await response.finish()).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_committed_before_epoch_end_is_acknowledged(harness):
    """The present leader has it; the size of the ISR is not checked there."""
    two_wanted(harness, (11, 12), 0)
    response = start(harness, request(batch(b"a")))
    harness.flush()
    fetched_by_12(harness, 1)
    two_wanted(harness, (11,), 1)
    state = partition((11, 12), isr=(12,), leader=12, leader_epoch=1, partition_epoch=2)
    configs = {(2, "t"): {"min.insync.replicas": "2"}}
    harness.set_image(topic("t", state), configs=configs)
    answer = (await response.finish()).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


async def test_end_of_epoch_is_answered(harness):
    harness.set_image(topic("t", partition((11, 12))))
    response = start(harness, request(batch(b"a")))
    harness.set_image(topic("t", partition((11, 12), leader=12, leader_epoch=1, partition_epoch=1)))
    answer = (await response.finish()).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_unreplicated_record_times_out(harness):
    harness.set_image(topic("t", partition((11, 12))))
    response = start(harness, request(batch(b"a"), timeout_ms=0))
    with trio.fail_after(5):
        answer = (await response.finish()).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert harness.leader().log.log_end_offset == 1, "it may still be committed"


async def test_duplicates_get_the_answer_of_the_first(harness):
    first = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    second = batch(b"c", producer_id=7, producer_epoch=0, base_sequence=2)
    for _ in range(2):
        assert (await ask(harness, bytes(first))).base_offset == 0
        assert (await ask(harness, bytes(second))).base_offset == 2
    assert harness.leader().log.log_end_offset == 3


async def test_duplicate_waits_for_commit_of_original(harness):
    records = bytes(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    start(harness, request(records))
    again = start(harness, request(records))
    assert isinstance(again, Paused)
    assert not again.ready()


async def test_gap_in_the_sequence_is_refused(harness):
    await ask(harness, batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    answer = await ask(harness, batch(b"c", producer_id=7, producer_epoch=0, base_sequence=2))
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_old_producer_epoch_is_refused(harness):
    await ask(harness, batch(b"a", producer_id=7, producer_epoch=1, base_sequence=0))
    answer = await ask(harness, batch(b"a", producer_id=7, producer_epoch=0, base_sequence=1))
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_transactional_batch_needs_its_transactional_id(harness):
    """CVE-2018-17196: the right to write it depends on that id."""
    records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    answer = await ask(harness, records)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert harness.leader().log.log_end_offset == 0


async def test_transaction_without_coordinator_is_not_verified(harness):
    """Every producer retries after NOT_ENOUGH_REPLICAS (KAFKA-16386)."""
    records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    answer = await ask(harness, records, transactional_id="x")
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert harness.leader().log.log_end_offset == 0


async def test_non_transactional_batch_needs_no_coordinator(harness):
    assert (await ask(harness, batch(b"a"), transactional_id="x")).error_code == ErrorCode.NONE


async def test_clients_cannot_write_to_internal_topics(harness):
    harness.set_image(topic("__consumer_offsets", partition()))
    answer = await ask(harness, batch(b"a"), name="__consumer_offsets")
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_append_time_is_stamped_and_answered(harness):
    harness.set_image(
        topic("t", partition()),
        configs={(2, "t"): {"message.timestamp.type": "LogAppendTime"}},
    )
    before = now_ms()
    answer = await ask(harness, batch(b"a", timestamp_ms=1))
    assert before <= answer.log_append_time_ms <= now_ms()


def damaged(position: int, *, flip: int = 0xFF) -> bytes:
    data = bytearray(batch(b"some value", b"another"))
    data[position] ^= flip
    return bytes(data)


def with_attributes(attributes: int) -> bytes:
    """Returns a batch with a correct CRC over wrong attributes."""
    import crc32c

    data = bytearray(batch(b"a"))
    data[21:23] = attributes.to_bytes(2, "big")
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


BAD = {
    "mB2 crc": (damaged(-1), ErrorCode.CORRUPT_MESSAGE),
    "mB2 crc field": (damaged(17), ErrorCode.CORRUPT_MESSAGE),
    "mB3 magic 0": (damaged(16, flip=2), ErrorCode.INVALID_RECORD),
    "mB3 magic 1": (damaged(16, flip=3), ErrorCode.INVALID_RECORD),
    "mB4 two": (bytes(batch(b"a")) * 2, ErrorCode.INVALID_RECORD),
    "mB4 none": (b"", ErrorCode.INVALID_RECORD),
    "mB5 codec 5": (with_attributes(5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "mB9 control": (bytes(batch(b"a", is_control=True)), ErrorCode.INVALID_RECORD),
    "mB10 sequence": (
        bytes(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=-1)),
        ErrorCode.INVALID_RECORD,
    ),
    "mB12 far ahead": (
        bytes(batch(b"a", timestamp_ms=now_ms() + 3 * 3600 * 1000)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "mB12 negative": (bytes(batch(b"a", timestamp_ms=-2)), ErrorCode.INVALID_TIMESTAMP),
    "mB12 append time": (
        bytes(batch(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "mB15 large": (bytes(batch(b"x" * 1_100_000)), ErrorCode.MESSAGE_TOO_LARGE),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_batches_are_refused_without_a_trace(harness, name):
    records, code = BAD[name]
    answer = await ask(harness, records)
    assert ErrorCode.of(answer.error_code) is code
    assert (answer.base_offset, harness.leader().log.log_end_offset) == (-1, 0)
    assert (await ask(harness, batch(b"good"))).base_offset == 0, "the partition lives"


async def test_null_records_are_refused(harness):
    answer = await ask(harness, None)
    assert answer.error_code == ErrorCode.INVALID_RECORD


async def test_compacted_topic_requires_keys(harness):
    harness.set_image(topic("t", partition()), configs={(2, "t"): {"cleanup.policy": "compact"}})
    answer = await ask(harness, batch(b"a"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    keyed = build_batch([NewRecord(b"k", b"v", now_ms(), (RecordHeader("h", b"1"),))])
    assert (await ask(harness, keyed)).error_code == 0


async def test_refused_records_are_named(harness):
    """KIP-467: they are named by their index in the batch, also in a compressed one; without the indexes a client
    cannot send the remaining records.
    """
    harness.set_image(topic("t", partition()), configs={(2, "t"): {"cleanup.policy": "compact"}})
    now = now_ms()
    late = now + 2 * 3_600_000
    keyed, keyless = NewRecord(b"k", b"v", now), NewRecord(None, b"v", now)
    for compression in (Compression.NONE, Compression.GZIP):
        records = build_batch([keyed, keyless, keyed, keyless], compression=compression)
        answer = await ask(harness, records)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [record_error.batch_index for record_error in answer.record_errors] == [1, 3]
        assert "key" in answer.record_errors[0].batch_index_error_message
        assert answer.error_message.startswith("2 of 4 records are refused")
    answer = await ask(harness, build_batch([keyless, keyed, NewRecord(b"k", b"v", late)]))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP, "one for its time, as in Kafka"
    assert [record_error.batch_index for record_error in answer.record_errors] == [0, 2]
    assert f"timestamp {late}" in answer.record_errors[1].batch_index_error_message


async def test_no_more_records_are_named_than_a_bound(harness):
    harness.set_image(topic("t", partition()), configs={(2, "t"): {"cleanup.policy": "compact"}})
    count = RECORDS_NAMED_MAX + 1
    answer = await ask(harness, build_batch([NewRecord(None, b"", now_ms())] * count))
    assert len(answer.record_errors) == RECORDS_NAMED_MAX
    keyed = NewRecord(b"k", b"", now_ms())
    beyond = build_batch([keyed] * RECORDS_NAMED_MAX + [NewRecord(None, b"", now_ms())])
    answer = await ask(harness, beyond)
    assert (answer.error_code, answer.record_errors) == (ErrorCode.INVALID_RECORD, [])


async def test_each_partition_of_request_has_its_result(harness):
    message = through_wire(
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(index=index, records=batch(b"a"))
                        for index in (0, 1, 5)
                    ],
                ),
                TopicProduceData(
                    name="nowhere",
                    partition_data=[PartitionProduceData(index=0, records=batch(b"a"))],
                ),
            ],
        ),
        VERSION,
    )
    response = start(harness, message)
    harness.flush()
    answers = (await finished(response)).responses
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [p.error_code for t in answers for p in t.partition_responses] == [
        0,
        0,
        unknown,
        unknown,
    ]


async def test_disk_error_is_reported_and_ends_appends(harness, monkeypatch):
    """KAFKA-10778: the directory is offline from its first failure on."""
    log = harness.leader().log

    def fail(*_args, **_kwargs):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(log.files), "pwrite", fail)
    assert (await ask(harness, batch(b"a"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert (await ask(harness, batch(b"a"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    with trio.fail_after(5):
        [failed] = await FailedDirectories(harness.directories).wait()
    assert "Input/output" in failed.offline


@pytest.mark.parametrize("acks", [1, 0, -1])
async def test_waiting_produce_releases_its_records(harness, acks):
    """The receive buffer can be resized, which proves that nothing refers to it any more."""
    large = batch(bytes(UNFLUSHED_BYTES_MAX // 2))
    start(harness, request(large, acks=1))
    frame = bytearray(request(large, acks=acks).encode(VERSION))
    message = ProduceRequest.decode(memoryview(frame), VERSION)
    response = start(harness, message)
    assert isinstance(response, Paused)
    assert response.effect.holds_request is (acks != -1)
    del message
    gc.collect()
    frame.append(0)
    harness.flush()
    answer = await response.finish()
    assert (answer is None) is (acks == 0)


async def test_refusal_as_a_whole_names_each_partition(harness):
    message = request(batch(b"a"), acks=5, index=1)
    assert start(harness, message) == _fail_all(message, ErrorCode.INVALID_REQUIRED_ACKS, "acks 5")
    (topic_response,) = _fail_all(message, ErrorCode.REQUEST_TIMED_OUT, "why").responses
    (one,) = topic_response.partition_responses
    assert (topic_response.name, one.index, one.error_code, one.base_offset, one.error_message) == (
        "t",
        1,
        ErrorCode.REQUEST_TIMED_OUT,
        -1,
        "why",
    )


@pytest.mark.parametrize(
    ("timeout_ms", "seconds"), [(-1, 0), (0, 0), (1, 0.001), (1500, 1.5), (60_000, 60)]
)
async def test_acks_all_waits_for_clients_timeout(harness, autojump_clock, timeout_ms, seconds):
    harness.set_image(topic("t", partition((11, 12))))
    response = start(harness, request(batch(b"a"), timeout_ms=timeout_ms))
    began = trio.current_time()
    answer = (await response.finish()).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert trio.current_time() - began == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize(("version", "names_leaders"), [(9, False), (10, True), (12, True)])
async def test_leader_is_named_from_version_10_on(harness, version, names_leaders):
    elsewhere = partition((11, 12), leader=12, leader_epoch=4)
    harness.set_image(topic("t", elsewhere), brokers=(registration(11), registration(12)))
    response = start(harness, request(batch(b"a"), version=version), version)
    assert [node_endpoint.node_id for node_endpoint in response.node_endpoints] == [
        12
    ] * names_leaders
    (one,) = response.responses[0].partition_responses
    assert one.current_leader.leader_id == (12 if names_leaders else -1)


async def test_acks_zero_reports_failed_partition_and_reason(harness):
    with pytest.raises(CloseConnection, match=r"acks=0 to t-7 failed: UNKNOWN_TOPIC_OR_PARTITION"):
        start(harness, request(batch(b"a"), acks=0, index=7))


async def test_each_of_many_partitions_is_authorized(harness):
    authorizer = Authorizer()
    authorizer.complete_initial_load()
    harness.contexts = replaced(harness.contexts, authorizer=authorizer)
    records = bytes(batch(b"a"))
    partitions = [PartitionProduceData(index=index, records=records) for index in range(201)]
    message = through_wire(
        ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=partitions)],
        ),
        VERSION,
    )
    response = start(harness, message)
    (told,) = response.responses
    assert [partition_response.index for partition_response in told.partition_responses] == [
        partition.index for partition in partitions
    ]
    codes = {partition_response.error_code for partition_response in told.partition_responses}
    assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert harness.leader().log.log_end_offset == 0
