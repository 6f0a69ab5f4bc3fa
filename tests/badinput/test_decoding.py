"""Section 4.2: sizes, counts, strings and tags inside complete frames."""

import random
import struct

import pytest

from tests.badinput.made import made
from tests.badinput.peer import (
    CLOSED,
    ask,
    codes,
    connected,
    frame_of,
    header,
    is_closed_after,
    sized,
)
from tests.wire.test_fuzz import TELLING, mutate
from trimaran.wire.buffers.primitives import write_uvarint
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.registry import REQUESTS

pytestmark = pytest.mark.cluster

COUNTS = {"max": 2**31 - 1, "more-than-there-is": 1000, "negative": -2, "min": -(2**31)}
METADATA = 3


def uvarint(number: int) -> bytes:
    out = bytearray()
    write_uvarint(out, number)
    return bytes(out)


@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize(("key", "version"), [(3, 1), (3, 8), (19, 2), (20, 1), (42, 0)])
def test_me1_count_beyond_available_bytes_is_refused(broker, key, version, count):
    broker.forget_peak()
    before = broker.peak_kib()
    body = struct.pack(">i", count) + bytes(200)
    assert is_closed_after(broker.address, sized(header(key, version) + body))
    assert broker.peak_kib() - before < 4 << 10


@pytest.mark.parametrize("count", [2**32 - 1, 2**31, 2**31 - 1, 1000])
def test_me1_compact_count_beyond_available_bytes_is_refused(node, count):
    body = uvarint(count) + bytes(200)
    keys = {(18, 3), (12, 4) if node.role == "broker" else (55, 0)}
    for key, version in keys:
        frame = sized(header(key, version) + b"\0" + body)
        assert is_closed_after(node.address, frame), key


def test_me1_any_count_leaves_every_api_bounded(node):
    """Any value in place of a count: each body is answered or closes the connection, and nothing is created from it."""
    node.forget_peak()
    before = node.peak_kib()
    for body in (b"\x7f\xff\xff\xff" * 30, b"\xff" * 120, b"\x80" * 120, b"\x7f" * 120, b""):
        for key, version in served(node):
            with connected(node.address) as peer:
                tags = b"\0" * (version in REQUESTS[key].FLEXIBLE)
                peer.try_send(sized(header(key, version) + tags + body))
                peer.end()
                peer.frame()
    assert node.peak_kib() - before < 16 << 10


def served(node):
    versions = ask(node.address, ApiVersionsRequest(), 0)
    return [
        (api_key.api_key, version)
        for api_key in versions.api_keys
        if api_key.api_key in REQUESTS
        for version in {api_key.min_version, api_key.max_version}
        & set(REQUESTS[api_key.api_key].VERSIONS)
    ]


def test_me3_millions_of_header_tags_are_refused(node):
    """CVE-2026-111115: millions of tags of two bytes each precede the body."""
    node.forget_peak()
    before = node.peak_kib()
    tags = b"".join(uvarint(tag) + b"\0" for tag in range(1_000_000))
    assert is_closed_after(node.address, sized(header(18, 3) + uvarint(20_000_000) + tags))
    # the receive buffer holds the received bytes, twice while they are moved
    assert node.peak_kib() - before < 4 * len(tags) // 1024 + (8 << 10)


TAGS = {
    "size-negative": b"\x01\x00\xff\xff\xff\xff\x0f",
    "size-beyond": b"\x01\x00\x7f\x00",
    "twice": b"\x02\x63\x00\x63\x00",
    "out-of-order": b"\x02\x63\x00\x62\x00",
    "count-beyond": b"\x05\x00\x00",
    "endless": b"\x80" * 20,
    "six-bytes": b"\x81\x80\x80\x80\x80\x00\x00\x00",
}


@pytest.mark.parametrize("tags", TAGS.values(), ids=TAGS)
@pytest.mark.parametrize("where", ["header", "body"])
def test_me4_me5_malformed_tags_are_refused(node, tags, where):
    body = b"\x02x\x02x"
    parts = (tags, body, b"\0") if where == "header" else (b"\0", body, tags)
    assert is_closed_after(node.address, sized(header(18, 3) + b"".join(parts)))


def test_me4_unknown_tags_are_skipped(node):
    with connected(node.address) as peer:
        peer.send(sized(header(18, 3) + b"\x01\x63\x01x" + b"\x02x\x02x" + b"\x01\x64\x02xy"))
        assert peer.answer(18, 3).error_code == 0


def test_me5_overlong_varints_are_numbers(node):
    with connected(node.address) as peer:
        peer.send(sized(header(18, 3) + b"\0" + b"\x82\x00x" + b"\x82\x80\x80\x80\x00x" + b"\0"))
        assert peer.answer(18, 3).error_code == 0


STRINGS = {
    "size-minus-two": struct.pack(">h", -2) + b"x" * 40,
    "beyond": struct.pack(">h", 30000) + b"x" * 40,
    "null": struct.pack(">h", -1),
    "not-utf-8": struct.pack(">h", 4) + b"\xff\xfe\xfd\xfc",
    "lone-surrogate": struct.pack(">h", 3) + b"\xed\xa0\x80",
}


@pytest.mark.parametrize("string", STRINGS.values(), ids=STRINGS)
def test_me6_malformed_string_closes_the_connection(broker, string):
    body = struct.pack(">i", 1) + string
    assert is_closed_after(broker.address, sized(header(METADATA, 1) + body + bytes(20)))


NAMES = {
    "slash": "a/b",
    "dots": "..",
    "empty": "",
    "nul": "a\0b",
    "override": "\u202egpj",
    "too-long": "x" * 250,
    "longest-string": "x" * 32767,
    "blank": "a b",
    "newline": "a\nERROR forged",
    "format": "%s{0}$",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_me6_invalid_topic_names_are_refused(broker, name):
    topics = [MetadataRequestTopic(name=name)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    assert codes(ask(broker.address, request, 9)) == {"INVALID_TOPIC_EXCEPTION"}
    creation = CreateTopicsRequest(
        topics=[made(CreatableTopic, name=name, num_partitions=1, replication_factor=1)]
    )
    assert codes(ask(broker.address, creation, 5)) == {"INVALID_TOPIC_EXCEPTION"}
    assert not [line for line in broker.said() if line.startswith("ERROR forged")]


@pytest.mark.parametrize("value", [2, 127, 128, 255])
def test_me8_every_byte_is_a_valid_boolean(broker, value):
    """Every byte except 0 is true."""
    body = struct.pack(">i", 0) + bytes([value])
    with connected(broker.address) as peer:
        peer.send(sized(header(METADATA, 4) + body))
        assert peer.answer(METADATA, 4).topics == []


def test_me8_reserved_topic_ids_are_unknown(broker):
    reserved = [bytes(16), bytes(15) + b"\x01", bytes(14) + b"\x01\x00", b"\xff" * 16]
    for topic_id in reserved[1:]:
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None)]
        assert codes(ask(broker.address, MetadataRequest(topics=topics), 12)) == {
            "UNKNOWN_TOPIC_ID"
        }


def test_me9_oversized_arrays_are_refused_in_bounded_memory(broker):
    """The elements are present, with a few bytes each; the memory of the decoded elements is bounded."""
    broker.forget_peak()
    before = broker.peak_kib()
    count = 1_100_000
    frame = sized(header(METADATA, 1) + struct.pack(">i", count) + bytes(2 * count))
    assert is_closed_after(broker.address, frame)
    assert broker.peak_kib() - before < 4 * len(frame) // 1024 + (8 << 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_mutated_requests_leave_node_serving(node, seed):
    """Every API in its newest and oldest version, empty except for required fields, with bytes changed."""
    rng = random.Random(seed)
    for key, version in served(node):
        body = bytes(made(REQUESTS[key], version).encode(version))
        tags = b"\0" * (version in REQUESTS[key].FLEXIBLE)
        for _ in range(4):
            with connected(node.address) as peer:
                peer.try_send(sized(header(key, version) + tags + mutate(body, rng)))
                peer.end()
                peer.frame()  # a response or EOF; other tests check which one is right
    node.assert_serves()


def test_bodies_of_special_bytes_leave_node_serving(node):
    for key, version in served(node):
        for telling in TELLING:
            with connected(node.address) as peer:
                peer.try_send(sized(header(key, version) + telling))
                peer.end()
                peer.frame()
    node.assert_serves()


def test_request_with_trailing_bytes_is_served(broker):
    """Kafka serves such requests too: librdkafka 2.16 sends three extra bytes."""
    frame = frame_of(MetadataRequest(topics=[]), 1)[4:] + b"\0\0\0"
    with connected(broker.address) as peer:
        peer.send(sized(frame))
        response = peer.answer(METADATA, 1)
    assert codes(response) != {CLOSED}
