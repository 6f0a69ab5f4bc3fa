"""Record bytes: views when decoded; bytes, views, splices or sequences of them when encoded."""

from dataclasses import dataclass

import pytest

from trimaran.wire.buffers.outgoing import Outgoing, records_view, write_records
from trimaran.wire.errors import LocalProtocolError
from trimaran.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from trimaran.wire.messages.header import encode_response
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


@dataclass
class Piece:
    """A piece of a missing file: encoding must not read it."""

    size: int
    position: int = 0

    def fileno(self) -> int:
        raise AssertionError


def produce(records) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[partition])
    return ProduceRequest(acks=1, timeout_ms=0, topic_data=[topic])


def fetched(*records) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=i, high_watermark=0, aborted_transactions=None, records=r)
        for i, r in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def records_of(request: ProduceRequest):
    return request.topic_data[0].partition_data[0].records


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_decoded_records_are_views_of_the_frame(version):
    frame = bytearray(produce(b"batch").encode(version))
    records = records_of(ProduceRequest.decode(memoryview(frame), version))
    assert isinstance(records, memoryview)
    assert records == b"batch"
    frame[frame.index(b"batch")] = ord("c")
    assert records == b"catch"


@pytest.mark.parametrize("version", [3, 9])
def test_null_records_differ_from_empty(version):
    null, empty = produce(None).encode(version), produce(b"").encode(version)
    assert null != empty
    assert records_of(ProduceRequest.decode(null, version)) is None
    assert records_of(ProduceRequest.decode(empty, version)) == b""


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(
    "records",
    [memoryview(b"abcd"), bytearray(b"abcd"), [b"ab", memoryview(b"cd")], (b"abc", b"", b"d")],
)
def test_all_forms_encode_the_same_bytes(version, records):
    assert produce(records).encode(version) == produce(b"abcd").encode(version)


@pytest.mark.parametrize("version", [4, 12])
def test_splice_is_placed_within_the_frame(version):
    one, two, three = Piece(5), Piece(0), Piece(300)
    out = Outgoing()
    fetched(one, two, [b"head", three], None).encode_into(out, version)
    assert [splice for _, splice in out.splices] == [one, three]
    assert out.wire_size == len(out) + 305
    whole, done = b"", 0
    for place, splice in out.splices:
        whole += out[done:place] + b"x" * splice.size
        done = place
    whole += out[done:]
    assert whole == fetched(b"x" * 5, b"", b"head" + b"x" * 300, None).encode(version)


def test_splice_position_counts_the_header():
    out = encode_response(fetched(Piece(3)), 12, correlation_id=1)
    (place, _), body = out.splices[0], fetched(b"abc").encode(12)
    assert place == 5 + body.index(b"abc")


def test_splices_cannot_be_encoded_as_bytes():
    with pytest.raises(LocalProtocolError):
        fetched(Piece(1)).encode(4)
    with pytest.raises(LocalProtocolError):
        write_records(bytearray(), Piece(1), flexible=False)


def test_only_bytes_have_a_records_view():
    assert records_view(None) == b""
    assert records_view(b"ab") == b"ab"
    assert records_view(bytearray(b"ab")) == b"ab"
    view = memoryview(b"ab")
    assert records_view(view) is view
    with pytest.raises(LocalProtocolError):
        records_view([b"ab"])
    with pytest.raises(LocalProtocolError):
        records_view(Piece(1))


def test_unknown_form_of_records_is_refused():
    with pytest.raises(LocalProtocolError):
        produce(3).encode(9)
    with pytest.raises(LocalProtocolError):
        produce("text").encode(9)
