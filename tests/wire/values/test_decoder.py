"""Values decoded by a registry and by files; an error names the id."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import struct
import uuid
from decimal import Decimal

import fastavro
import pytest

from tests.wire.values.naive_registry import naive_registry
from trimaran.wire.values import decoder as decoding
from trimaran.wire.values.avro import avro_schema
from trimaran.wire.values.decoder import ValueDecoder, decode_bare, file_schema
from trimaran.wire.values.failures import RegistryFailure, UndecodedValue, UnusableSchema
from trimaran.wire.values.http_get import HttpServer
from trimaran.wire.values.json_form import as_json
from trimaran.wire.values.protoc import compiled
from trimaran.wire.values.registry import SchemaRegistry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
PROTO = 'syntax = "proto3"; message A { int32 a = 1; message B { string b = 1; } } message C { int32 c = 1; }'


@pytest.fixture
def served():
    with naive_registry() as registry:
        yield registry


def framed(number, payload):
    return struct.pack(">bI", 0, number) + payload


def avro(schema, value):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def decoder(served, **options):
    return ValueDecoder(SchemaRegistry(HttpServer(served.url)), **options)


def test_each_kind_is_decoded_by_its_id(served):
    ids = {
        "AVRO": served.register("a", ORDER),
        "PROTOBUF": served.register("p", PROTO, "PROTOBUF"),
        "JSON": served.register("j", {"$schema": "x"}, "JSON"),
    }
    found = decoder(served)
    assert found.decode(framed(ids["AVRO"], avro(ORDER, {"id": 7}))).value == {"id": 7}
    assert found.decode(framed(ids["PROTOBUF"], b"\x00\x08\x05")).value == {"a": 5}
    assert found.decode(framed(ids["PROTOBUF"], b"\x04\x00\x00\x0a\x01x")).value == {"b": "x"}
    decoded = found.decode(framed(ids["JSON"], b'{"big": 18446744073709551617}'))
    assert decoded.value == {"big": 2**64 + 1}
    assert str(decoded.schema_id) == f"id {ids['JSON']}"
    assert len(served.asked) == 3


def test_older_values_are_resolved_to_the_readers_schema(served):
    note = {"name": "note", "type": "string", "default": "none"}
    newer = avro_schema(json.dumps({**ORDER, "fields": [*ORDER["fields"], note]}))
    value = framed(served.register("a", ORDER), avro(ORDER, {"id": 7}))
    assert decoder(served).decode(value, read_as=newer).value == {"id": 7, "note": "none"}


def test_references_are_resolved(served):
    served.register("inner", {**ORDER, "namespace": "n"})
    outer = {"type": "record", "name": "Top", "fields": [{"name": "order", "type": "n.Order"}]}
    top = served.register("top", outer, references=[("n.Order", "inner")])
    served.register(
        "money", 'syntax = "proto3"; package m; message Sum { int32 x = 1; }', "PROTOBUF"
    )
    text = 'syntax = "proto3"; import "m/sum.proto"; message Pay { m.Sum sum = 1; }'
    pay = served.register("pay", text, "PROTOBUF", [("m/sum.proto", "money")])
    assert decoder(served).decode(framed(top, b"\x0e")).value == {"order": {"id": 7}}
    assert decoder(served).decode(framed(pay, b"\x00\x0a\x02\x08\x03")).value == {"sum": {"x": 3}}


def test_value_with_id_in_header_is_whole(served):
    served.register("p", PROTO, "PROTOBUF")
    guid = uuid.UUID(served.schemas[0]["guid"])
    headers = [("__value_schema_id", b"\x01" + guid.bytes + b"\x02\x02")]
    assert decoder(served).decode(b"\x08\x05", headers).value == {"c": 5}


def test_protobuf_of_apicurio_names_its_type(served):
    base = "/apis/registry/v3/ids/contentIds/1"
    served.faults = {
        f"{base}?returnArtifactType=true": (200, PROTO.encode()),
        f"{base}/references": (200, b"[]"),
    }
    registry = SchemaRegistry(HttpServer(f"{served.url}/apis/registry/v3"))
    found = ValueDecoder(registry)
    assert found.decode(framed(1, b"\x03\x0a\x01C\x08\x05")).value == {"c": 5}
    headers = [("apicurio.value.contentId", struct.pack(">q", 1)), ("apicurio.protobuf.type", b"A")]
    assert found.decode(b"\x08\x05", headers).value == {"a": 5}


def test_unknown_ids_are_requested_again_later(served):
    now = [100.0]
    found = decoder(served, monotonic=lambda: now[0])
    for _ in range(3):
        with pytest.raises(UndecodedValue, match=r"^id 1: .*answers 404"):
            found.decode(framed(1, b"\x02"))
    assert len(served.asked) == 1
    served.register("late", '"int"')
    now[0] += decoding.REFUSAL_SECONDS
    assert found.decode(framed(1, b"\x02")).value == 1


def test_failed_registry_is_asked_again_immediately(served):
    served.register("a", '"int"')
    served.faults["/schemas/ids/1"] = 503, b""
    found = decoder(served)
    with pytest.raises(RegistryFailure, match="answers 503"):
        found.decode(framed(1, b"\x02"))
    served.faults.clear()
    assert found.decode(framed(1, b"\x02")).value == 1


def test_least_recently_used_schemas_are_evicted(served, monkeypatch):
    monkeypatch.setattr(decoding, "SCHEMAS_MAX", 2)
    for name in "abc":
        served.register(name, '"int"')
    found = decoder(served)
    for number in (1, 2, 1, 3, 1, 2):
        found.decode(framed(number, b"\x02"))
    assert served.asked == [f"/schemas/ids/{number}" for number in (1, 2, 3, 2)]
    for number in range(10, 14):
        with pytest.raises(UndecodedValue):
            found.decode(framed(number, b""))
    assert len(found._refused) == 2


def test_invalid_value_is_reported_with_its_id(served):
    served.register("a", ORDER)
    served.register("x", "?", "XML")
    served.register("j", "{", "JSON")
    served.register("k", "{}", "JSON")
    for value, told in (
        (framed(1, b""), r"^id 1: the bytes are no value of its Avro schema"),
        (framed(2, b""), r"^id 2: schemas of type 'XML' are not decoded"),
        (framed(3, b""), r"^id 3: no JSON Schema"),
        (framed(4, b"{"), r"^id 4: the value is no JSON"),
        (framed(4, b"[" * 100_000), r"^id 4: the value is no JSON"),
        (b"plain text", "does not begin with the id"),
    ):
        with pytest.raises(UndecodedValue, match=told):
            decoder(served).decode(value)


def test_large_values_are_refused(monkeypatch, served):
    monkeypatch.setattr(decoding, "VALUE_BYTES_MAX", 10)
    with pytest.raises(UndecodedValue, match="a value of 11 bytes, and at most 10 are decoded"):
        decoder(served).decode(bytes(11))
    with pytest.raises(UndecodedValue, match="8-byte id 0 is an id of Apicurio"):
        decoder(served).decode(bytes(10))
    assert decode_bare(b" " * 9 + b"5", decoding.JsonSchema({})).value == 5
    with pytest.raises(UndecodedValue, match="a value of 11 bytes, and at most 10 are decoded"):
        decode_bare(b" " * 10 + b"5", decoding.JsonSchema({}))


def test_local_schemas_decode_bare_values(tmp_path):
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "inner.proto").write_text('syntax = "proto3"; message I { int32 i = 1; }')
    (tmp_path / "a.proto").write_text(
        PROTO.replace("message A", 'import "inner.proto"; message A', 1)
    )
    (tmp_path / "a.desc").write_bytes(compiled("a.proto", {"a.proto": PROTO}))
    (tmp_path / "a.pb").write_bytes((tmp_path / "a.desc").read_bytes())
    (tmp_path / "x.json").write_text("{}")
    assert decode_bare(b"\x0e", file_schema(tmp_path / "order.avsc")).value == {"id": 7}
    for name in ("a.proto", "a.desc", "a.pb"):
        schema = file_schema(tmp_path / name)
        assert decode_bare(b"\x08\x05", schema).value == {"a": 5}
        found = decode_bare(b"\x08\x05", schema, "C")
        assert (found.value, found.message, found.schema_id) == ({"c": 5}, "C", None)
        assert decode_bare(b"", schema, "A.B").value == {"b": ""}
    assert decode_bare(b"[1]", file_schema(tmp_path / "x.json")).value == [1]
    with pytest.raises(UnusableSchema, match="is no schema by its name"):
        file_schema(tmp_path / "order.txt")


def test_values_are_rendered_as_json():
    value = {
        "time": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "local": dt.datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001
        "day": dt.date(2026, 1, 2),
        "clock": dt.time(3, 4, 5),
        "took": [dt.timedelta(seconds=-1.5), dt.timedelta(days=1), dt.timedelta(microseconds=1)],
        "no time": dt.timedelta(0),
        "decimal": Decimal("1E+3"),
        "uuid": uuid.UUID(int=1),
        "bytes": b"\xff",
        "numbers": (math.nan, math.inf, -math.inf, 1.5, 2**70, True, None),
        "keys": {5: "x"},
    }
    assert json.loads(json.dumps(as_json(value), allow_nan=False)) == {
        "time": "2026-01-02T03:04:05Z",
        "local": "2026-01-02T03:04:05.000006",
        "day": "2026-01-02",
        "clock": "03:04:05",
        "took": ["-1.5s", "86400s", "0.000001s"],
        "no time": "0s",
        "decimal": "1000",
        "uuid": "00000000-0000-0000-0000-000000000001",
        "bytes": "/w==",
        "numbers": ["NaN", "Infinity", "-Infinity", 1.5, 2**70, True, None],
        "keys": {"5": "x"},
    }
