"""Records: encoding and decoding are inverses, Kafka's own bytes are decoded, and everything malformed is refused."""

import struct

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from tests.log.helpers import batch_bytes, view_of
from trimaran.log.batches.batch import HEADER_BYTES, BatchView, check_batch, check_crc, iter_batches
from trimaran.log.batches.records import NewRecord, RecordHeader, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError

# Written by librdkafka 2.16 (r-…) and Kafka 4.3's Java producer (j-…), stored by a Kafka 4.3 broker.
FROM_KAFKA = {
    "r-none": (
        "0000000000000000000000c30000000002307539130000000000010000018bcfe568000000018bcfe56807000000"
        "00000003e8000000000000000000029202000000066b6579f00176616c75652076616c75652076616c7565207661"
        "6c75652076616c75652076616c75652076616c75652076616c75652076616c75652076616c75652076616c756520"
        "76616c75652076616c75652076616c75652076616c75652076616c75652076616c75652076616c75652076616c75"
        "652076616c7565200402680231026e010c000e02010100"
    ),
    "r-gzip": (
        "0000000000000000000000670000000002cc7fc79e0001000000010000018bcfe568000000018bcfe56807000000"
        "00000003e9000000000000000000021f8b08000000000000039bc4c4c0c0c0969d5af981b12c31a7345581fe240b"
        "53069321531e230f031f1323230300389bc55c92000000"
    ),
    "r-snappy": (
        "00000000000000000000005b00000000024c9fe1ac0002000000010000018bcfe568000000018bcfe56807000000"
        "00000003ea000000000000000000029201409202000000066b6579f00176616c756520fe0600c606003804026802"
        "31026e010c000e02010100"
    ),
    "r-lz4": (
        "0000000000000000000000670000000002504309e20003000000010000018bcfe568000000018bcfe56807000000"
        "00000003eb0000000000000000000204224d1860408227000000ff029202000000066b6579f00176616c75652006"
        "005ff0000402680231026e010c000e0201010000000000"
    ),
    "r-zstd": (
        "0000000000000000000000620000000002d45934610004000000010000018bcfe568000000018bcfe56807000000"
        "00000003ec0000000000000000000228b52ffd005845010004029202000000066b6579f00176616c756520040268"
        "0231026e010c000e0201010001005fd2b204"
    ),
    "j-gzip": (
        "000000000000000000000067000000000255091443000100000001000001a1fc1026b7000001a1fc1026fe000000"
        "00000003f0000000000000000000021f8b08000000000000ffab62606060cccb4a2c4b54c8c9cc4b55c80762a279"
        "0c1a0c7d8c4c8c5208c192f27c0600d4fd379b53000000"
    ),
    "j-snappy": (
        "00000000000000000000007500000000029931a7d1000200000001000001a1fc101aa1000001a1fc101acb000000"
        "00000003ed0000000000000000000282534e415050590000000001000000010000003052507a000000016e6a6176"
        "61206c696e65206f6e65206a9e0e00500026005402011a6a617661206c696e652074776f00"
    ),
    "j-lz4": (
        "0000000000000000000000690000000002c324c9e8000300000001000001a1fc101f24000001a1fc101f43000000"
        "00000003ee0000000000000000000204224d1860408229000000ff057a000000016e6a617661206c696e65206f6e"
        "65200e0016750026003e02011a3000502074776f0000000000"
    ),
    "j-zstd": (
        "0000000000000000000000650000000002102634f0000400000001000001a1fc1022fb000001a1fc102316000000"
        "00000003ef0000000000000000000228b52ffd0058440100f87a000000016e6a617661206c696e65206f6e652000"
        "26003602011a74776f000200536d86802613010000"
    ),
}
LEADER_CHANGE = (
    "0000000000000000000000a20000000102bcb45704002000000002000001a1fc06e122000001a1fc06e122ffffffffff"
    "ffffffffffffffffff000000033a00000008000000022600000000000102000000010002000000010000001e0000020"
    "8000000050a000000010000820100000408000000066e0000020000000196c6f223b233441583b32df1c2af53e0020b"
    "434f4e54524f4c4c45520a3132372e302e302e31a4d9000000000100000000"
)

small_bytes = st.one_of(st.none(), st.binary(max_size=40))
record_lists = st.lists(
    st.builds(
        NewRecord,
        key=small_bytes,
        value=small_bytes,
        timestamp_ms=st.integers(-1, 2**62),
        headers=st.lists(st.tuples(st.text(max_size=5), small_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=8,
)


@given(
    record_lists, st.sampled_from(Compression), st.integers(0, 2**60), st.integers(-1, 2**31 - 1)
)
def test_decode_is_the_inverse_of_build(records, compression, base_offset, leader_epoch):
    data = build_batch(
        records, base_offset=base_offset, leader_epoch=leader_epoch, compression=compression
    )
    view = view_of(data)
    check_batch(view)
    decoded = decode_records(view)
    assert [r[1:] for r in decoded] == [
        (r.timestamp_ms, r.key, r.value, tuple(RecordHeader(*h) for h in r.headers))
        for r in records
    ]
    assert [r.offset for r in decoded] == list(range(base_offset, view.next_offset))
    assert view.max_timestamp == max(r.timestamp_ms for r in records)
    assert (view.leader_epoch, view.compression, view.count) == (
        leader_epoch,
        compression,
        len(records),
    )


@pytest.mark.parametrize("name", [n for n in FROM_KAFKA if n.startswith("r-")])
def test_librdkafka_batch_is_read(name):
    view = view_of(bytes.fromhex(FROM_KAFKA[name]))
    check_batch(view)
    first, second = decode_records(view)
    assert first == (
        0,
        1700000000000,
        b"key",
        b"value " * 20,
        (RecordHeader("h", b"1"), RecordHeader("n", None)),
    )
    assert second == (1, 1700000000007, None, None, ())
    assert (view.producer_id >= 1000, view.base_sequence, view.last_sequence) == (True, 0, 1)


@pytest.mark.parametrize("name", ["j-gzip", "j-snappy", "j-lz4", "j-zstd"])
def test_java_producer_batch_is_read(name):
    view = view_of(bytes.fromhex(FROM_KAFKA[name]))
    check_batch(view)
    assert [r.value for r in decode_records(view)] == [
        b" ".join([b"java line one"] * 4),
        b"java line two",
    ]


def test_bytes_of_librdkafka_are_rebuilt():
    data = bytes.fromhex(FROM_KAFKA["r-none"])
    view = view_of(data)
    built = build_batch(
        [NewRecord(r.key, r.value, r.timestamp_ms, r.headers) for r in decode_records(view)],
        leader_epoch=0,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=0,
    )
    assert built == data


def test_control_batch_of_kafkas_controller_is_read():
    view = view_of(bytes.fromhex(LEADER_CHANGE))
    check_batch(view)
    assert view.is_control
    assert [r.key for r in decode_records(view)] == [
        b"\0\0\0\2",  # leader change
        b"\0\0\0\5",  # kraft.version
        b"\0\0\0\6",  # voters
    ]


def _decode_everything(data):
    for view in iter_batches(memoryview(data), allow_partial_tail=True):
        check_batch(view)
        decode_records(view, 1 << 16)


@given(st.binary(max_size=200))
def test_any_bytes_give_batches_or_a_protocol_error(data):
    assert_only_raises((KafkaError, RemoteProtocolError), lambda: _decode_everything(data))


@given(
    st.sampled_from(sorted(FROM_KAFKA)),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 40),
)
def test_mutated_records_give_records_or_a_protocol_error(name, changes, cut):
    """The CRC is not checked, because a hostile producer can send such records with a correct CRC."""
    data = bytearray.fromhex(FROM_KAFKA[name])
    for position, value in changes:
        data[HEADER_BYTES + position % (len(data) - HEADER_BYTES)] = value
    data = data[: len(data) - cut] if cut < len(data) - HEADER_BYTES else data
    view = BatchView(data)
    assert_only_raises(RemoteProtocolError, lambda: decode_records(view, 1 << 16))


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.LZ4])
def test_batch_with_trailing_bytes_is_read(kind):
    """Kafka accepts it from producers and serves it to every consumer."""
    data = batch_bytes(2, compression=kind) + b"garbage"
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, crc32c.crc32c(data[21:]))
    check_crc(view_of(data))
    assert [record.key for record in decode_records(view_of(data))] == [b"k0", b"k1"]


def test_excessive_record_count_is_refused_before_decoding():
    view = view_of(batch_bytes(2))
    view.count = 2**31 - 1
    with pytest.raises(RemoteProtocolError, match="cannot lie in"):
        decode_records(view)


@pytest.mark.parametrize("kind", [5, 6, 7])
def test_unknown_compression_is_refused(kind):
    view = view_of(batch_bytes(1))
    view.attributes |= kind
    with pytest.raises(KafkaError) as raised:
        decode_records(view)
    assert raised.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_invalid_utf8_header_keys_are_replaced_as_kafka():
    view = view_of(build_batch([NewRecord(None, None, 5, (("k", b"v"),))]))
    broken = bytearray(view.buffer)
    broken[broken.index(b"k")] = 0xFF
    [record] = decode_records(BatchView(broken))
    assert record.headers == (RecordHeader("\ufffd", b"v"),)


def test_record_without_its_offset_is_kept():
    records = [NewRecord(None, b"v", 0)] * 3
    with pytest.raises(IndexError):
        build_batch(records, offset_deltas=[0, 4])
