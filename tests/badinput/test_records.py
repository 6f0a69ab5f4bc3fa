"""Section 4.3: record batches that a producer must not send."""

import struct

import lz4.frame
import pytest

from tests.badinput.made import made
from tests.badinput.nodes import COMPACTED, TOPIC
from tests.badinput.peer import CLOSED, TIMEOUT_MS, ask, codes, connected, frame_of
from tests.log.validation.test_validate import MALFORMED
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression, compress, decompress
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.cluster

VERSION = 9
CRC_AT, CRC_FROM = 17, 21
OK = {"NONE"}
INVALID_RECORD, CORRUPT = {"INVALID_RECORD"}, {"CORRUPT_MESSAGE"}


def batch(*records, **options) -> bytes:
    listed = records or (NewRecord(b"k", b"value", now_ms()),)
    return build_batch(listed, **options)


def with_crc(data: bytes) -> bytes:
    import crc32c

    crc = crc32c.crc32c(bytes(data[CRC_FROM:]))
    return bytes(data[:CRC_AT]) + struct.pack(">I", crc) + bytes(data[CRC_FROM:])


def patched(data: bytes, position: int, fmt: str, value: int, *, crc: bool = True) -> bytes:
    changed = bytearray(data)
    struct.pack_into(fmt, changed, position, value)
    return with_crc(bytes(changed)) if crc else bytes(changed)


def request(records: bytes | None, *, topic=TOPIC, index=0, acks=-1, **given) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics, **given)


def end_offset(broker, topic=TOPIC, index=0) -> int:
    partition = made(ListOffsetsPartition, partition_index=index, timestamp=-1)
    asked = made(ListOffsetsRequest, replica_id=-1)
    asked.topics = [ListOffsetsTopic(name=topic, partitions=[partition])]
    (answer,) = ask(broker.address, asked, 1).topics
    return answer.partitions[0].offset


def produced(broker, records, version=VERSION, **given) -> set[str]:
    """Returns the codes of the response; checks that after an error no record was appended."""
    topic, index = given.get("topic", TOPIC), given.get("index", 0)
    before = end_offset(broker, topic, index) if index == 0 else 0
    found = codes(ask(broker.address, request(records, **given), version))
    if found != OK and index == 0:
        assert end_offset(broker, topic, index) == before
    return found


def test_valid_batch_is_appended(broker):
    assert produced(broker, batch()) == OK


@pytest.mark.parametrize("bit", [0x40, 0x80, 0x4000])
def test_attributes_reserved_for_brokers_are_refused(broker, bit):
    """0x40: the log cleaner would consider the tombstone old enough to be removed (KIP-534)."""
    tombstone = batch(NewRecord(b"k", None, now_ms()))
    assert produced(broker, patched(tombstone, 21, ">h", bit), topic=COMPACTED) == INVALID_RECORD


def test_mb2_wrong_crc_is_corrupt(broker):
    assert produced(broker, patched(batch(), CRC_AT, ">I", 1, crc=False)) == CORRUPT


@pytest.mark.parametrize("position", [*range(8, 61)])
def test_mb2_flipped_header_bit_is_refused(broker, position):
    """The broker writes the base offset and the leader epoch itself; all other fields are checked."""
    data = bytearray(batch())
    data[position] ^= 0x10
    found = produced(broker, bytes(data))
    if 12 <= position < 16:
        assert found == OK
    else:
        assert found <= {*CORRUPT, *INVALID_RECORD, "UNSUPPORTED_FOR_MESSAGE_FORMAT"}
        assert found


@pytest.mark.parametrize("magic", [0, 1, 3, 127, -1])
def test_mb3_other_magic_is_refused(broker, magic):
    """Kafka refuses 0 and 1 with INVALID_RECORD; unknown formats are corrupt."""
    found = produced(broker, patched(batch(), 16, ">b", magic))
    assert found == (INVALID_RECORD if magic in (0, 1) else CORRUPT)


def test_mb4_second_batch_is_refused(broker):
    assert produced(broker, batch() + batch()) == INVALID_RECORD


@pytest.mark.parametrize("records", [b"", None], ids=["empty", "null"])
def test_mb4_missing_batch_is_refused(broker, records):
    assert produced(broker, records) == INVALID_RECORD


@pytest.mark.parametrize("end", [1, 11, 12, 17, 60, -1])
def test_mb4_truncated_batch_is_refused(broker, end):
    data = batch()
    found = produced(broker, data[:end])
    assert found <= {*CORRUPT, *INVALID_RECORD}
    assert found


@pytest.mark.parametrize("length", [-1, 0, 13, 2**31 - 1, -(2**31)])
def test_mb4_wrong_batch_length_is_refused(broker, length):
    found = produced(broker, patched(batch(), 8, ">i", length, crc=False))
    assert found <= {*CORRUPT, *INVALID_RECORD}
    assert found


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_mb5_unknown_codec_is_refused(broker, codec):
    found = produced(broker, patched(batch(), 21, ">h", codec))
    assert found <= {"UNSUPPORTED_COMPRESSION_TYPE", *CORRUPT, *INVALID_RECORD}
    assert found


def test_mb5_zstd_is_refused_before_version_7(broker):
    data = batch(compression=Compression.ZSTD)
    assert produced(broker, data, version=6) == {"UNSUPPORTED_COMPRESSION_TYPE"}
    assert produced(broker, data, version=7) == OK


COMPRESSED = [c for c in Compression if c is not Compression.NONE]


def with_payload(data: bytes, payload: bytes, count: int | None = None) -> bytes:
    """Returns the batch with other bytes after its header, optionally another count, and the correct size and CRC."""
    changed = bytearray(data[:61]) + payload
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    if count is not None:
        struct.pack_into(">i", changed, 57, count)
        struct.pack_into(">i", changed, 23, count - 1)
    return with_crc(bytes(changed))


def ten(codec: Compression) -> bytes:
    return batch(*[NewRecord(b"k", bytes(1000), now_ms()) for _ in range(10)], compression=codec)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_mb7_truncated_compressed_stream_is_refused(broker, codec):
    data = ten(codec)
    for end in (-1, -8, len(data) // 2 + 30, 61):
        assert produced(broker, with_payload(data, data[61:end])) == INVALID_RECORD
    assert produced(broker, data) == OK


@pytest.mark.parametrize("codec", COMPRESSED)
def test_mb7_bytes_after_compressed_stream_are_refused(broker, codec):
    data = ten(codec)
    assert produced(broker, with_payload(data, data[61:] + b"garbage")) == INVALID_RECORD


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("count", [1, 9, 11, 1000])
def test_mb7_wrong_record_count_is_refused(broker, codec, count):
    data = ten(codec)
    assert produced(broker, with_payload(data, data[61:], count)) == INVALID_RECORD


def test_mb7_linked_lz4_blocks_are_refused(broker):
    """Blocks of 64 KiB that refer to earlier blocks: a reader that supports only independent blocks stops at this
    offset forever.
    """
    value = bytes(range(256)) * 512
    data = batch(NewRecord(b"k", value, now_ms()), compression=Compression.LZ4)
    linked = lz4.frame.compress(decompress(Compression.LZ4, data[61:], 1 << 20), block_linked=True)
    assert produced(broker, with_payload(data, linked)) == INVALID_RECORD
    assert produced(broker, data) == OK


def test_mb7_decompression_bomb_is_refused(broker):
    """The batch exceeds the limit of decompression; it is checked in a thread, and the next request is served."""
    bomb = batch(NewRecord(b"k", bytes(129 << 20), now_ms()), compression=Compression.ZSTD)
    assert len(bomb) < 100_000
    assert produced(broker, bomb) == INVALID_RECORD
    assert produced(broker, batch()) == OK


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("name", MALFORMED)
def test_mb8_malformed_records_are_refused(broker, name, codec):
    good = batch()
    payload = MALFORMED[name]
    changed = bytearray(with_payload(good, compress(codec, payload)))
    struct.pack_into(">h", changed, 21, codec)
    assert produced(broker, with_crc(bytes(changed))) == INVALID_RECORD


@pytest.mark.parametrize("count", [0, 2, 100, -1, 2**31 - 1])
def test_mb7_wrong_count_of_plain_records_is_refused(broker, count):
    found = produced(broker, patched(batch(), 57, ">i", count))
    assert found <= {*CORRUPT, *INVALID_RECORD}
    assert found


@pytest.mark.parametrize("delta", [-1, 5, 2**31 - 1])
def test_mb8_wrong_last_offset_delta_is_refused(broker, delta):
    assert produced(broker, patched(batch(), 23, ">i", delta)) == INVALID_RECORD


def test_mb9_control_batch_is_refused(broker):
    assert produced(broker, patched(batch(), 21, ">h", 0x20)) == INVALID_RECORD


def test_mb10_inconsistent_producer_fields_are_refused(broker):
    transactional = patched(batch(), 21, ">h", 0x10)
    assert produced(broker, transactional) <= {*INVALID_RECORD, "INVALID_TXN_STATE"}
    no_epoch = patched(batch(), 43, ">q", 4711)
    assert produced(broker, no_epoch) <= {*INVALID_RECORD, "INVALID_PRODUCER_EPOCH"}
    no_sequence = patched(no_epoch, 51, ">h", 0)
    assert produced(broker, no_sequence) == INVALID_RECORD


@pytest.mark.parametrize("timestamp_ms", [-2, 2**63 - 1, -(2**63)])
def test_mb12_invalid_timestamp_is_refused(broker, timestamp_ms):
    data = patched(patched(batch(), 27, ">q", timestamp_ms), 35, ">q", timestamp_ms)
    assert produced(broker, data) == {"INVALID_TIMESTAMP"}


def test_mb12_record_timestamps_are_checked_individually(broker):
    late = batch(NewRecord(b"k", b"v", now_ms()), NewRecord(b"k", b"v", now_ms() + 7_200_000))
    assert produced(broker, patched(late, 35, ">q", now_ms())) == {"INVALID_TIMESTAMP"}
    overflow = bytearray(batch(NewRecord(b"k", b"v", 0), NewRecord(b"k", b"v", 2**62)))
    struct.pack_into(">q", overflow, 27, 2**62)
    assert produced(broker, with_crc(bytes(overflow))) <= {"INVALID_TIMESTAMP", *INVALID_RECORD}


def test_mb12_timestamp_in_future_is_refused(broker):
    """More than message.timestamp.after.max.ms, an hour."""
    later = now_ms() + 7_200_000
    assert produced(broker, batch(NewRecord(b"k", b"v", later))) == {"INVALID_TIMESTAMP"}


def test_mb13_null_key_in_compacted_topic_is_refused(broker):
    data = batch(NewRecord(None, b"v", now_ms()))
    assert produced(broker, data, topic=COMPACTED) == INVALID_RECORD
    assert produced(broker, batch(), topic=COMPACTED) == OK


@pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
def test_mb14_invalid_acks_are_refused(broker, acks):
    assert produced(broker, batch(), acks=acks) == {"INVALID_REQUIRED_ACKS"}


def test_mb14_error_with_acks_0_closes_the_connection(broker):
    with connected(broker.address) as peer:
        peer.send(frame_of(request(b"rubbish", acks=0), VERSION))
        assert peer.frame() is None


def test_mb15_too_large_batch_is_refused(broker):
    data = batch(NewRecord(b"k", bytes(1_100_000), now_ms()))
    assert produced(broker, data) == {"MESSAGE_TOO_LARGE"}


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1, -(2**31)])
def test_unknown_partition_is_refused(broker, index):
    assert produced(broker, batch(), index=index) == {"UNKNOWN_TOPIC_OR_PARTITION"}


def test_unknown_topic_is_refused(broker):
    data = request(batch(), topic="nowhere")
    assert codes(ask(broker.address, data, VERSION)) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    by_id = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                topic_id=b"\x07" * 16,
                partition_data=[PartitionProduceData(index=0, records=batch())],
            )
        ],
    )
    assert codes(ask(broker.address, by_id, 13)) == {"UNKNOWN_TOPIC_ID"}


def test_internal_topic_is_refused(broker):
    asked = request(batch(), topic="__consumer_offsets")
    found = codes(ask(broker.address, asked, VERSION))
    assert found <= {"INVALID_TOPIC_EXCEPTION", "UNKNOWN_TOPIC_OR_PARTITION"}


def test_refused_records_are_never_read(broker):
    """At the end of this module the partition contains only acknowledged records, and is readable to its end."""
    partition = made(FetchPartition, partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = made(FetchRequest, max_bytes=1 << 20)
    asked.topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    response = ask(broker.address, asked, 4)
    assert codes(response) == OK
    assert CLOSED not in codes(response)
