"""Rows of JSON: a record that was not decoded is written with the same bytes; a decoded one needs its schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.values.naive_registry import naive_registry
from trimaran.client.record_codecs import FileCodec, MsgpackCodec, RegistryCodec
from trimaran.client.record_rows import RowRecord, decoded, encoded, of_text, parse_row, row_of
from trimaran.client.record_values import Codecs, JsonValue
from trimaran.log.batches.records import Record, RecordHeader
from trimaran.wire.identity import TopicPartition
from trimaran.wire.values.access import RegistryAccess
from trimaran.wire.values.failures import UndecodedValue, UnencodedValue

AS_BYTES = Codecs()
WHERE = TopicPartition("t", 2)
BYTES = st.one_of(st.none(), st.binary(max_size=12), st.text(max_size=8).map(str.encode))
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "token", "type": ["null", "bytes"]}],
}
PROTO = 'syntax = "proto3"; message Other { int32 n = 1; } message Order { int64 id = 1; }'


@st.composite
def records(draw):
    headers = draw(st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=3))
    return Record(
        draw(st.integers(0, 2**63 - 1)),
        draw(st.integers(-1, 2**62)),
        draw(BYTES),
        draw(BYTES),
        tuple(RecordHeader(name, value) for name, value in headers),
    )


def line_of(record, codecs=AS_BYTES, *, fails=True):
    row = row_of(WHERE, record, decoded(record, codecs, fails=fails))
    return json.dumps(row).encode()


def produced(line, codecs=AS_BYTES):
    """Returns the record that `produce` makes of a line, at no offset."""
    row = parse_row(line)
    return Record(
        0,
        row.timestamp_ms,
        encoded(row.key, codecs.key, row.headers),
        encoded(row.value, codecs.value, row.headers),
        tuple(RecordHeader(name, value) for name, value in row.headers),
    )


def value_record(value, headers=()):
    return Record(0, 7, b"k", value, tuple(RecordHeader(*each) for each in headers))


@given(records())
def test_record_keeps_its_bytes_through_json(record):
    line = line_of(record)
    assert produced(line) == record._replace(offset=0)
    assert parse_row(line).partition == 2


@given(records())
def test_undecodable_record_keeps_its_bytes(record):
    """No bytes of the strategy begin with the id of a schema that the registry has."""

    class Refusing:
        def decode(self, data, headers):
            raise UndecodedValue("no")

        def encode(self, value, headers):
            raise AssertionError("bytes stay as they are")

    codecs = Codecs(Refusing(), Refusing())
    line = line_of(record, codecs, fails=False)
    assert produced(line, codecs) == record._replace(offset=0)
    row = json.loads(line)
    assert (row.get("value"), row.get("value_error", "no")) == (None, "no")
    if record.value is not None:
        with pytest.raises(UndecodedValue, match="no"):
            line_of(record, codecs)


@pytest.fixture
def registry():
    with naive_registry() as registry:
        yield registry


def codec_of(registry, **options):
    return RegistryCodec(RegistryAccess(registry.url).client(), is_key=False, **options)


def test_avro_value_with_id_keeps_its_bytes(registry):
    number = registry.register("t-value", ORDER)
    codecs = Codecs(None, codec_of(registry))
    for payload in (b"\x54\x00", b"\x54\x02\x06\x00\xff\x01"):
        record = value_record(b"\0" + number.to_bytes(4, "big") + payload)
        line = line_of(record, codecs)
        assert json.loads(line)["value_schema"] == f"id {number}"
        assert produced(line, codecs) == record
    header = ("__value_schema_id", b"\0" + number.to_bytes(4, "big"))
    record = value_record(b"\x54\x00", [header])
    assert produced(line_of(record, codecs), codecs) == record


def test_protobuf_keeps_its_message(registry):
    number = registry.register("t-value", PROTO, "PROTOBUF")
    codecs = Codecs(None, codec_of(registry))
    head = b"\0" + number.to_bytes(4, "big")
    for body, message in ((b"\0\x08\x05", "Other"), (b"\x02\x02\x08\x07", "Order")):
        line = line_of(value_record(head + body), codecs)
        assert json.loads(line)["value_message"] == message
        assert produced(line, codecs) == value_record(head + body)


def test_value_without_id_is_written_by_subject(registry):
    registry.register("other", {"type": "string"})
    number = registry.register("t-value", ORDER)
    head = b"\0" + number.to_bytes(4, "big")
    for options in ({"default_subject": "t-value"}, {"subject": "t-value"}):
        codec = codec_of(registry, **options)
        assert codec.encode(JsonValue({"id": 42, "token": None}), ()) == head + b"\x54\x00"
    with pytest.raises(UnencodedValue, match="names no id"):
        codec_of(registry).encode(JsonValue({"id": 42}), ())


def test_subject_resolves_values_of_older_schemas(registry):
    old = registry.register("t-value", {"type": "record", "name": "Order", "fields": []})
    grown = {**ORDER, "fields": [{"name": "id", "type": "long", "default": 9}]}
    registry.register("t-value", grown)
    value = b"\0" + old.to_bytes(4, "big")
    assert codec_of(registry, subject="t-value").decode(value, ()).value == {"id": 9}
    assert codec_of(registry).decode(value, ()).value == {}


def test_values_without_ids_keep_their_bytes(tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    for codec, data in ((FileCodec(file, ""), b"\x54\x00"), (MsgpackCodec(), b"\x81\xa1a\x01")):
        codecs = Codecs(codec, None)
        record = Record(0, 7, data, b"v", ())
        assert produced(line_of(record, codecs), codecs) == record


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "it is no JSON"),
        (b"[]", "it is no object"),
        (b"{}", "it has no value"),
        (b'{"value": 5, "vlaue": 1}', "a field 'vlaue'"),
        (b'{"value_base64": "x"}', "value_base64 is no base64"),
        (b'{"value_base64": 5}', "value_base64 is no string"),
        (b'{"value": "v", "headers": [["a"]]}', "headers are pairs"),
        (b'{"value": "v", "headers": "a"}', "headers are pairs"),
        (b'{"value": "v", "timestamp_ms": "x"}', "timestamp_ms is 'x'"),
        (b'{"value": "v", "partition": true}', "partition is True"),
        (b'{"value": "v", "partition": 2147483648}', "partition is 2147483648"),
        (b'{"value": {}, "value_schema": 5}', "are strings"),
        (b'{"value": "\\ud800"}', "no string of Unicode"),
        (b'{"value": {"a": 1}}', "no schema is given"),
        (b'{"value": {"a": 1}, "value_schema": "id 5"}', r"it was decoded \(id 5\)"),
    ],
)
def test_wrong_row_is_explained(line, why):
    with pytest.raises(ValueError, match=why):
        produced(line)


def test_shortest_row_is_value_alone():
    assert parse_row(b'{"value": null}') == RowRecord(None, None, [])
    assert produced(b'{"key": "k", "value": "v"}')[2:] == (b"k", b"v", ())


def test_text_with_codec_is_json():
    assert of_text(b"5", None) == b"5"
    assert of_text(b'{"a": 5}', MsgpackCodec()) == JsonValue({"a": 5})
    assert of_text(None, MsgpackCodec()) is None
    with pytest.raises(ValueError, match="no JSON to be encoded"):
        of_text(b"{", MsgpackCodec())
