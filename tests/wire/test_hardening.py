"""Wrong sizes, counts and tags (reliability: every port survives malformed input)."""

import tracemalloc

import pytest

from trimaran.wire.buffers.primitives import write_uvarint
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.header import decode_request_header
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.schema import DECODE_BUDGET, DECODE_BUDGET_BEFORE_AUTHENTICATION

ELEMENTS_MAX = DECODE_BUDGET.elements_max
TAGS_MAX = DECODE_BUDGET.tags_max


def uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


def tags(*pairs: tuple[int, bytes]) -> bytes:
    body = b"".join(uvarint(tag) + uvarint(len(value)) + value for tag, value in pairs)
    return uvarint(len(pairs)) + body


def assert_refused(cls, version, body):
    with pytest.raises(RemoteProtocolError):
        cls.decode(body, version)
    with pytest.raises(RemoteProtocolError):
        cls.decode(memoryview(body), version)


@pytest.mark.parametrize("count", [2**31 - 1, 2**30, 4, -2, -(2**31)])
def test_count_beyond_available_bytes_is_refused(count):
    assert_refused(MetadataRequest, 1, count.to_bytes(4, "big", signed=True) + b"\0\0" * 3)


@pytest.mark.parametrize("count", [2**32 - 1, 2**31, 200, 5])
def test_compact_count_beyond_available_bytes_is_refused(count):
    assert_refused(MetadataRequest, 9, uvarint(count) + b"\1\0" * 3)


def test_count_beyond_size_of_elements_is_refused():
    # A FetchPartition takes 16 bytes in version 4: 100 of them cannot be in 1599 bytes.
    start = b"\0" * 17 + b"\0\0\0\1" + b"\0\1t" + (100).to_bytes(4, "big")
    assert_refused(FetchRequest, 4, start + b"\0" * 1599)
    assert len(FetchRequest.decode(start + b"\0" * 1600, 4).topics[0].partitions) == 100


def test_false_count_allocates_no_memory():
    body = b"\0" * 17 + b"\x7f\xff\xff\xff" + b"\0" * 1000
    assert_refused(FetchRequest, 4, body)
    tracemalloc.start()
    assert_refused(FetchRequest, 4, body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000


def delete_topics(count: int) -> bytes:
    """Returns version 4: empty topic names of one byte each, a timeout, no tags."""
    return uvarint(count + 1) + b"\1" * count + b"\0\0\0\0" + b"\0"


def test_number_of_elements_is_limited():
    assert_refused(DeleteTopicsRequest, 4, delete_topics(ELEMENTS_MAX + 1))


def test_budget_is_not_below_declared_size():
    assert (
        len(DeleteTopicsRequest.decode(delete_topics(ELEMENTS_MAX), 4).topic_names) == ELEMENTS_MAX
    )


def test_budget_counts_all_arrays_together():
    partitions = (ELEMENTS_MAX // 2).to_bytes(4, "big") + bytes(4 * (ELEMENTS_MAX // 2))
    topic = b"\0\1t" + partitions
    assert_refused(OffsetFetchRequest, 1, b"\0\1g" + b"\0\0\0\2" + topic * 2)


@pytest.mark.parametrize("size", [-2, -(2**15), 3, 2**15 - 1])
def test_wrong_string_size_is_refused(size):
    body = (1).to_bytes(4, "big") + size.to_bytes(2, "big", signed=True) + b"ab"
    assert_refused(MetadataRequest, 1, body)


def test_null_in_required_string_is_refused():
    assert_refused(MetadataRequest, 1, b"\0\0\0\1" + b"\xff\xff")
    assert_refused(MetadataRequest, 9, b"\2" + b"\0" + b"\0\0\0\0\0")


def test_too_long_compact_string_is_refused():
    def body(size: int) -> bytes:
        return uvarint(size + 1) + b"x" * size + uvarint(1 + 1) + b"1" + b"\0"

    assert len(ApiVersionsRequest.decode(body(2**15 - 1), 3).client_software_name) == 2**15 - 1
    assert_refused(ApiVersionsRequest, 3, body(2**15))


@pytest.mark.parametrize(
    "text",
    [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80"],
)
def test_text_that_is_not_utf8_is_refused(text):
    assert_refused(MetadataRequest, 0, b"\0\0\0\1" + len(text).to_bytes(2, "big") + text)


@pytest.mark.parametrize("text", ["\0", "\u202e", "a\nb", "%s{}", ""])
def test_unusual_text_is_preserved(text):
    request = MetadataRequest.decode(
        b"\0\0\0\1" + len(text.encode()).to_bytes(2, "big") + text.encode(), 0
    )
    assert request.topics[0].name == text


@pytest.mark.parametrize("size", [2**31 - 1, -2, 5])
def test_wrong_size_of_bytes_is_refused(size):
    assert_refused(SaslAuthenticateRequest, 0, size.to_bytes(4, "big", signed=True) + b"1234")


@pytest.mark.parametrize("size", [2**32 - 1, 2**31, 6])
def test_wrong_size_of_records_is_refused(size):
    start = b"\0" + b"\0\1" + b"\0\0\0\0" + b"\2" + b"\2t" + b"\2" + b"\0\0\0\0"
    assert_refused(ProduceRequest, 9, start + uvarint(size) + b"123" + b"\0" * 3)
    assert_refused(ProduceRequest, 9, start + b"\x80" * 6)


def api_versions(section: bytes) -> bytes:
    return b"\2n\2v" + section


def test_unknown_tags_are_skipped():
    body = api_versions(tags((0, b""), (7, b"abc"), (2**32 - 1, bytes(300))))
    assert ApiVersionsRequest.decode(body, 3).client_software_name == "n"


def test_too_many_tags_are_refused():
    most = [(tag, b"") for tag in range(TAGS_MAX)]
    ApiVersionsRequest.decode(api_versions(tags(*most)), 3)
    assert_refused(ApiVersionsRequest, 3, api_versions(tags(*most, (TAGS_MAX, b""))))
    assert_refused(ApiVersionsRequest, 3, api_versions(uvarint(20_000_000) + bytes(1000)))


@pytest.mark.parametrize(
    "section",
    [
        tags((3, b""), (3, b"")),
        tags((3, b""), (2, b"")),
        b"\1\0\1",
        b"\1\0\xff\xff\xff\xff\x0f",
        b"\1\0\xff\xff\xff\xff\xff\x0f",
        b"\2\0\0",
        b"\1",
        b"",
    ],
    ids=["duplicate", "descending", "size 1", "size max", "size overlong", "count", "cut", "none"],
)
def test_malformed_tags_are_refused(section):
    assert_refused(ApiVersionsRequest, 3, api_versions(section))


def fetch_12(section: bytes) -> bytes:
    """Returns the fields after the replica id: sizes, isolation, session; no topics, none forgotten, no rack."""
    return bytes(4 + 4 + 4) + bytes(1) + bytes(8) + b"\1" + b"\1" + b"\1" + section


def test_known_tag_is_decoded():
    assert (
        FetchRequest.decode(b"\xff\xff\xff\xff" + fetch_12(tags((0, b"\2c"))), 12).cluster_id == "c"
    )
    assert_refused(FetchRequest, 12, b"\0\0\0\0" + fetch_12(tags((0, b"\2c" + b"more"))))
    assert_refused(FetchRequest, 12, b"\0\0\0\0" + fetch_12(tags((0, b"\3c"))))
    assert_refused(FetchRequest, 12, b"\0\0\0\0" + fetch_12(tags((0, b""))))


def test_tag_of_later_version_is_refused():
    # Tag 1 is ReplicaState from version 15 on; before, Kafka refuses it, too.
    assert_refused(FetchRequest, 12, b"\0\0\0\0" + fetch_12(tags((1, bytes(13)))))


def header(client_id: bytes, section: bytes) -> bytes:
    return b"\0\x12\0\3\0\0\0\1" + len(client_id).to_bytes(2, "big") + client_id + section


def test_malformed_header_tags_are_refused():
    assert decode_request_header(header(b"c", tags((1, b"x"))) + b"body")[1] == 11 + 4
    for section in (uvarint(20_000_000) + bytes(100), tags((1, b""), (1, b"")), b"\1\0\5", b""):
        with pytest.raises(RemoteProtocolError):
            decode_request_header(header(b"c", section))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x12\0\3\0\0\0",
        b"\0\x12\0\3\0\0\0\1\0",
        b"\0\x12\0\3\0\0\0\1\0\5abc",
        b"\0\x12\0\3\0\0\0\1\xff\xfe",
        header(b"\xff", b"\0"),
    ],
)
def test_malformed_header_is_refused(frame):
    with pytest.raises(RemoteProtocolError):
        decode_request_header(frame)


# Budgets


def test_me1_element_budget_is_smaller_before_authentication():
    most = DECODE_BUDGET_BEFORE_AUTHENTICATION.elements_max
    for count in (most, most + 1):
        body = delete_topics(count)
        assert len(DeleteTopicsRequest.decode(body, 4).topic_names) == count
        if count <= most:
            DeleteTopicsRequest.decode(body, 4, DECODE_BUDGET_BEFORE_AUTHENTICATION)
        else:
            with pytest.raises(RemoteProtocolError):
                DeleteTopicsRequest.decode(body, 4, DECODE_BUDGET_BEFORE_AUTHENTICATION)


def test_me1_byte_budget_is_smaller_before_authentication():
    most = DECODE_BUDGET_BEFORE_AUTHENTICATION.bytes_max - 4
    for size in (most, most + 1):
        body = size.to_bytes(4, "big") + bytes(size)
        assert len(SaslAuthenticateRequest.decode(body, 0).auth_bytes) == size
        if size <= most:
            SaslAuthenticateRequest.decode(body, 0, DECODE_BUDGET_BEFORE_AUTHENTICATION)
        else:
            with pytest.raises(RemoteProtocolError):
                SaslAuthenticateRequest.decode(body, 0, DECODE_BUDGET_BEFORE_AUTHENTICATION)


def test_me3_tag_budget_is_smaller_before_authentication():
    most = DECODE_BUDGET_BEFORE_AUTHENTICATION.tags_max
    for count in (most, most + 1):
        section = tags(*((tag, b"") for tag in range(count)))
        frame = header(b"c", section)
        body = api_versions(section)
        assert decode_request_header(frame)[1] == len(frame)
        ApiVersionsRequest.decode(body, 3)
        if count <= most:
            decode_request_header(frame, DECODE_BUDGET_BEFORE_AUTHENTICATION)
            ApiVersionsRequest.decode(body, 3, DECODE_BUDGET_BEFORE_AUTHENTICATION)
            continue
        with pytest.raises(RemoteProtocolError):
            decode_request_header(frame, DECODE_BUDGET_BEFORE_AUTHENTICATION)
        with pytest.raises(RemoteProtocolError):
            ApiVersionsRequest.decode(body, 3, DECODE_BUDGET_BEFORE_AUTHENTICATION)


def test_me3_tags_count_as_elements():
    """Many structs with the maximal number of tags each count as that many elements."""
    budget = DECODE_BUDGET._replace(elements_max=20)
    section = tags(*((tag, b"") for tag in range(10)))
    topic = b"\2t" + section  # MetadataRequest v9: a name and tags
    for count in (1, 2):
        body = uvarint(count + 1) + topic * count + b"\0\0\0" + b"\0"
        assert len(MetadataRequest.decode(body, 9).topics) == count
        if count == 1:
            MetadataRequest.decode(body, 9, budget)
        else:
            with pytest.raises(RemoteProtocolError):
                MetadataRequest.decode(body, 9, budget)


def test_me9_ten_million_partitions_are_refused():
    """The partitions are present, four bytes each, and the request is refused when the budget is exhausted; the rest is
    not decoded.
    """
    topic = b"\0\1t" + (10_000).to_bytes(4, "big") + bytes(40_000)
    assert_refused(OffsetFetchRequest, 1, b"\0\1g" + (1000).to_bytes(4, "big") + topic * 1000)
