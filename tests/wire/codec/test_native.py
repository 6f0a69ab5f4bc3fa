"""The compiled and the generated decoder return the same message, or the same refusal, for any bytes."""

import gc
import random
import sys
import tracemalloc

import pytest

from tests.checks import check_each
from tests.undisturbed import undisturbed
from tests.wire.declared import MESSAGES, check_all, telling_versions_of
from tests.wire.random_messages import random_message
from tests.wire.test_fuzz import mutate
from tests.wire.twins import COMPILED, outcome, readers
from trimaran.wire.buffers.primitives import write_uvarint
from trimaran.wire.codec import build
from trimaran.wire.codec.build import build_reader, generated_reader
from trimaran.wire.codec.declarations import Struct, field, int8
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from trimaran.wire.messages.metadata import MetadataResponse
from trimaran.wire.records.topics import PartitionRecord, TopicRecord
from trimaran.wire.schema import DECODE_BUDGET, DecodeBudget, Message, message

pytestmark = pytest.mark.skipif(not COMPILED, reason="not compiled here")

SAMPLES = 3
MUTANTS = 8


def result(read, data, budget=DECODE_BUDGET):
    """Returns the message with its types, its end offset, and the rest of the budget."""
    found = outcome(read, data, budget)
    return None if found is None else (shown(found[0]), *found[1:])


def shown(value):
    if isinstance(value, Struct):
        return type(value), [shown(getattr(value, f.name)) for f in value.__fields__]
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, memoryview):
        return memoryview, bytes(value)
    return type(value), repr(value)  # a NaN does not equal itself


def test_whole_and_broken_bytes_decode_alike():
    check_all(reads_the_same)


def reads_the_same(cls, version):
    rng = random.Random(f"native {cls.__name__} {version}")
    native, generated = readers(cls, version)
    tight = DecodeBudget(DECODE_BUDGET.bytes_max, rng.randrange(40), rng.randrange(4))
    for seed in range(SAMPLES):
        encoded = random_message(cls, version, seed).encode(version)
        assert outcome(native, encoded) is not None
        broken = [mutate(encoded, rng) for _ in range(MUTANTS)]
        for data in (encoded, encoded + b"\0", encoded[: rng.randint(0, len(encoded))], *broken):
            for budget in (DECODE_BUDGET, tight):
                assert result(native, data, budget) == result(generated, data, budget)


def test_bulk_decoding_equals_single_decoding():
    check_all(reads_many)


def reads_many(cls, version):
    rng = random.Random(f"many {cls.__name__} {version}")
    one_by_one, at_once = cls.decoder(version), cls.bulk_decoder(version)
    whole = [random_message(cls, version, seed).encode(version) for seed in range(SAMPLES)]
    for broken in (mutate(whole[0], rng), whole[0] + b"\0", whole[0][:-1]):
        for bodies in (whole, [*whole, broken]):
            try:
                wanted = [shown(one_by_one(body)) for body in bodies]
            except RemoteProtocolError:
                wanted = None
            found = at_once([b"\1\2" + body for body in bodies], b"\1\2")
            assert (found and [shown(item) for item in found]) == wanted
    assert at_once([b"\1\2" + whole[0], b"\1\3" + whole[0]], b"\1\2") is None


def test_every_prefix_decodes_alike():
    check_each(MESSAGES, reads_prefixes_alike)


def reads_prefixes_alike(cls):
    for version in telling_versions_of(cls):
        native, generated = readers(cls, version)
        encoded = random_message(cls, version, 1).encode(version)
        for size in range(0, len(encoded), max(1, len(encoded) // 100)):
            assert result(native, encoded[:size]) == result(generated, encoded[:size])


class Inner(Struct):
    number: int8


@message(versions="0", flexible="0+")
class Outer(Message):
    """A message with a nullable struct in a tag, which no message of Kafka has."""

    plain: Inner | None
    tagged: Inner | None = field(default=None, tag=0)


def test_every_mark_of_nullable_struct_decodes_alike():
    native, generated = readers(Outer, 0)
    for mark in range(256):
        for rest in (b"", b"\0", b"\7\0", b"\7\0\0"):
            plain = bytes([mark]) + rest
            tagged = b"\xff\1\0" + bytes([len(rest) + 1, mark]) + rest
            for data in (plain, tagged):
                assert result(native, data) == result(generated, data)
    assert outcome(native, b"\xff\1\0\1\0") == (
        Outer(plain=None, tagged=None),
        5,
        DECODE_BUDGET.elements_max - 1,
    )


def test_refusal_has_message_of_generated_reader(monkeypatch):
    encoded = random_message(MetadataResponse, 13, 1).encode(13)
    rng = random.Random(1)
    for data in [mutate(encoded, rng) for _ in range(300)]:
        sentences = []
        for read in (build_reader(MetadataResponse, 13), generated_reader(MetadataResponse, 13)):
            monkeypatch.setitem(MetadataResponse.readers, 13, read)
            try:
                sentences.append(repr(MetadataResponse.decode(data, 13)))
            except RemoteProtocolError as error:
                sentences.append(str(error))
        assert sentences[0] == sentences[1]


def test_generated_decoders_replace_missing_compiled_ones(monkeypatch):
    monkeypatch.setattr(build, "build_decoder", None)
    assert build_reader(TopicRecord, 0) is generated_reader(TopicRecord, 0)


def test_any_buffer_is_read_and_released():
    record = TopicRecord(name="größe", topic_id=bytes(range(16)))
    encoded = record.encode(0)
    given = bytearray(b"x" + encoded)
    for buf in (encoded, bytearray(encoded), memoryview(given)[1:], memoryview(encoded * 2)[::1]):
        assert TopicRecord.decode_prefix(buf, 0) == (record, len(encoded))
    spread = memoryview(bytes(b for byte in encoded for b in (byte, 0)))[::2]
    assert TopicRecord.decode(spread, 0) == record  # not contiguous: the generated reader copies it
    for data in (given, given[:5]):
        with pytest.raises(RemoteProtocolError):
            TopicRecord.decode(data, 0)
        data.clear()  # BufferError if it were still exported


def test_lists_are_own_and_defaults_are_shared():
    encoded = random_message(FetchResponse, 16, 0).encode(16)
    one, other = (FetchResponse.decode(encoded, 16) for _ in range(2))
    assert one.node_endpoints == []
    assert one.node_endpoints is not other.node_endpoints
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                partitions=[PartitionData(partition_index=0, high_watermark=0, records=None)]
            )
        ]
    )
    partition = FetchResponse.decode(response.encode(16), 16).responses[0].partitions[0]
    assert partition.diverging_epoch is response.responses[0].partitions[0].diverging_epoch


def large() -> tuple[type[Message], int, bytes]:
    response = MetadataResponse.decode(random_message(MetadataResponse, 13, 1).encode(13), 13)
    response.topics = response.topics * 50
    return MetadataResponse, 13, response.encode(13)


@pytest.mark.parametrize("collecting", [True, False])
def test_collector_settings_are_restored(collecting):
    cls, version, data = large()
    assert len(data) > 4096
    (gc.enable if collecting else gc.disable)()
    try:
        cls.decode(data, version)
        assert gc.isenabled() is collecting
        with pytest.raises(RemoteProtocolError):
            cls.decode(data[:-1], version)
        assert gc.isenabled() is collecting
    finally:
        gc.enable()


def test_nothing_is_allocated_by_declared_size():
    """The counts of replicas exceed the available bytes, for any number of bytes; another count exceeds the budget."""
    read, _ = readers(PartitionRecord, 2)
    start = random_message(PartitionRecord, 2, 0).encode(2)[:20]  # partition id and topic id
    for count, room in (
        (0xFFFFFFFE, 100),
        (999_999, 100),
        (999_999, 1_500_000),
        (2_000_000, 8_000_000),
    ):
        size = bytearray()
        write_uvarint(size, count + 1)
        data = start + size + bytes(room)
        with undisturbed():
            tracemalloc.start()
            assert outcome(read, data) is None
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 10_000


def test_decoding_leaks_no_memory():
    """Whole, truncated and broken messages, many times: the numbers of objects and references and the memory stay the
    same.
    """
    rng = random.Random(2)
    given = []
    for cls, version in ((MetadataResponse, 13), (FetchResponse, 18), (PartitionRecord, 2)):
        encoded = random_message(cls, version, 1).encode(version)
        inputs = [encoded, encoded[:-1], *(mutate(encoded, rng) for _ in range(20))]
        given += [(readers(cls, version)[0], data) for data in inputs]
    shared = (None, True, (), *(data for _, data in given), MetadataResponse, PartitionData)

    def rounds(count):
        for _ in range(count):
            for read, data in given:
                outcome(read, data)

    def state():
        gc.collect()
        return sys.getallocatedblocks(), [sys.getrefcount(value) for value in shared]

    with undisturbed():
        rounds(5)
        blocks, references = state()
        rounds(20)
        blocks_later, references_later = state()
    assert blocks_later - blocks < 100
    assert all(abs(a - b) < 20 for a, b in zip(references, references_later, strict=True))
