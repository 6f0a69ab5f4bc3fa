"""Protobuf: messages that its library writes are read, with schemas as text and as descriptors."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import subprocess
import sys
from base64 import b64decode, b64encode
from decimal import Decimal
from itertools import combinations

import pytest
from google.protobuf import descriptor_pb2, message_factory
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from trimaran.wire.later import imported_later
from trimaran.wire.values import protobuf, protoc
from trimaran.wire.values.avro import DECIMAL_BYTES_MAX, SCALE_MAX
from trimaran.wire.values.failures import UndecodedValue, UnencodedValue, UnusableSchema
from trimaran.wire.values.framing import message_indexes
from trimaran.wire.values.protobuf import ProtobufSchema, protobuf_schema

TEXT = """syntax = "proto3";
package shop;
import "money/money.proto";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Size { SMALL = 0; LARGE = 1; }
message Order {
  message Line { string item = 1; uint64 count = 2; }
  int64 id = 1 [(confluent.field_meta) = { doc: "the number" }];
  string buyer = 2;
  optional bool gift = 3;
  double weight = 4;
  bytes token = 5;
  repeated Size sizes = 6;
  repeated Line lines = 7;
  map<string, int32> stock = 8;
  oneof paid { money.Sum sum = 9; string voucher = 10; }
}
message Special {
  google.protobuf.Timestamp at = 1;
  google.protobuf.Duration took = 2;
  google.protobuf.Struct extra = 3;
  google.protobuf.Int64Value wrapped = 4;
  confluent.type.Decimal price = 5;
  Special inner = 6;
  map<bool, Order.Line> lines = 7;
}
"""
MONEY = 'syntax = "proto3"; package money; message Sum { sint64 cents = 1; }'


@pytest.fixture(scope="module")
def schema():
    return protobuf_schema(TEXT, {"money/money.proto": MONEY})


def new(schema, name):
    return message_factory.GetMessageClass(schema.type_named(name))()


def read(schema, message):
    return schema.decode(memoryview(message.SerializeToString()), message.DESCRIPTOR)


LINES = st.fixed_dictionaries({"item": st.text(max_size=5), "count": st.integers(0, 2**64 - 1)})
ORDERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "buyer": st.text(max_size=5),
        "weight": st.floats(allow_nan=False),
        "token": st.binary(max_size=5),
        "sizes": st.lists(st.sampled_from(["SMALL", "LARGE"]), max_size=3),
        "lines": st.lists(LINES, max_size=3),
        "stock": st.dictionaries(st.text(max_size=3), st.integers(-(2**31), 2**31 - 1), max_size=3),
    },
    optional={"gift": st.booleans(), "voucher": st.text(max_size=3)},
)


@given(ORDERS)
def test_written_messages_are_read(schema, order):
    kind = message_factory.GetMessageClass(schema.type_named("Order"))
    assert read(schema, kind(**order)) == order


def test_fields_without_presence_have_defaults(schema):
    order = new(schema, "shop.Order")
    assert read(schema, order) == {
        "id": 0,
        "buyer": "",
        "weight": 0.0,
        "token": b"",
        "sizes": [],
        "lines": [],
        "stock": {},
    }
    order.sum.cents = -5
    order.sizes.append(9)
    assert {"sum": {"cents": -5}, "sizes": ["9"]}.items() <= read(schema, order).items()


def test_well_known_types_become_plain_values(schema):
    special = new(schema, "Special")
    special.at.FromJsonString("2026-01-02T03:04:05.123456Z")
    special.took.FromTimedelta(dt.timedelta(seconds=-1.5))
    special.extra.update({"a": [1, None, {"b": "c"}, math.inf]})
    special.wrapped.value = 0
    special.price.value, special.price.scale = b"\xff\x00", 2
    special.lines[True].item = "x"
    assert read(schema, special) == {
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=dt.UTC),
        "took": dt.timedelta(seconds=-1.5),
        "extra": {"a": [1.0, None, {"b": "c"}, math.inf]},
        "wrapped": 0,
        "price": Decimal("-2.56"),
        "lines": {"true": {"item": "x", "count": 0}},
    }
    special.price.value = b""
    assert str(read(schema, special)["price"]) == "0"


@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(schema, payload):
    special = schema.type_named("Special")
    assert_only_raises(UndecodedValue, lambda: schema.decode(memoryview(payload), special))


def test_values_out_of_range_are_refused(schema):
    special = new(schema, "Special")
    special.at.seconds = 2**62
    with pytest.raises(UndecodedValue, match="out of range"):
        read(schema, special)
    special.at.seconds = 0
    for scale in (SCALE_MAX + 1, -SCALE_MAX - 1, 2**31 - 1, -(2**31)):
        special.price.scale = scale
        with pytest.raises(UndecodedValue, match=f"with scale {scale}"):
            read(schema, special)
    special.price.value, special.price.scale = b"\1" * (DECIMAL_BYTES_MAX + 1), 0
    with pytest.raises(UndecodedValue, match=f"a decimal of {DECIMAL_BYTES_MAX + 1} bytes"):
        read(schema, special)
    special.price.value = b"\0" + b"\xff" * (DECIMAL_BYTES_MAX - 1)
    assert read(schema, special)["price"] == 2 ** (8 * (DECIMAL_BYTES_MAX - 1)) - 1
    special.price.value = b"\1"
    for scale in (SCALE_MAX, -SCALE_MAX):
        special.price.scale = scale
        assert read(schema, special)["price"] == Decimal(f"1e{-scale}")


def test_deep_messages_are_refused(schema):
    payload = b""
    for _ in range(40):  # each of the lengths fits into one byte
        payload = bytes([0x32, len(payload)]) + payload
    depth, found = 0, schema.decode(memoryview(payload), schema.type_named("Special"))
    while found := found.get("inner"):
        depth += 1
    assert depth == 40
    deep = new(schema, "Special")
    inner = deep
    for _ in range(150):
        inner = inner.inner
        inner.SetInParent()
    with pytest.raises(UndecodedValue, match=r"no message shop\.Special"):
        read(schema, deep)


def test_types_are_found_by_path_and_name(schema):
    assert schema.type_at([0, 0]).full_name == "shop.Order.Line"
    assert schema.type_at([1]) is schema.type_named("shop.Special") is schema.type_named("Special")
    assert schema.type_named("") is schema.type_at([0])
    for path in ([2], [0, 2], [0, 9], [-1], [0, -1]):
        with pytest.raises(UndecodedValue, match="no message at"):
            schema.type_at(path)
    with pytest.raises(UndecodedValue, match="it has Order, Special"):
        schema.type_named("Oder")


def test_path_of_a_type_leads_to_it(schema):
    for path in ([0], [1], [0, 0]):
        assert schema.indexes_of(schema.type_at(path)) == path
    nested = protobuf_schema(
        'syntax = "proto3"; message A {} message B { message C {} message D { message E {} } }', {}
    )
    for path, name in (([1], "B"), ([1, 0], "B.C"), ([1, 1], "B.D"), ([1, 1, 0], "B.D.E")):
        assert nested.type_at(path).full_name == name
        assert nested.indexes_of(nested.type_named(name)) == path
    imported = schema.type_at([0]).fields_by_name["sum"].message_type
    with pytest.raises(UnencodedValue, match=r"money\.Sum is a message of another file"):
        schema.indexes_of(imported)


@pytest.mark.parametrize("text", ["syntax = 3;", 'syntax = "proto3"; import "absent.proto";', "\0"])
def test_malformed_text_is_refused(text):
    with pytest.raises(UnusableSchema, match=r"compiler refuses the schema: (?s:.)*schema\.proto"):
        protobuf_schema(text, {})


@pytest.mark.parametrize(
    "name",
    ["/etc/x.proto", "../x.proto", "a/../../x.proto", "-x.proto", "x" * 300, "a\0b", "", "."],
)
def test_imports_stay_in_their_folder(name):
    with pytest.raises(UnusableSchema, match=r"no name of an imported \.proto file"):
        protobuf_schema(TEXT, {name: MONEY})


def test_import_with_own_name_is_preserved():
    schema = protobuf_schema(
        'syntax = "proto3"; import "schema.proto"; message Own { money.Sum sum = 1; }',
        {"schema.proto": MONEY},
    )
    assert schema.type_at([0]).full_name == "Own"


def in_base64(name, texts):
    """Returns the descriptor of a file as Confluent's serializer for Python registers it."""
    files = descriptor_pb2.FileDescriptorSet.FromString(protoc.compiled(name, texts)).file
    return b64encode(files[-1].SerializeToString()).decode()


def test_descriptors_in_base64_are_schemas():
    money = {"money/money.proto": MONEY}
    top = in_base64("other.proto", {**money, "other.proto": TEXT})
    for reference in (MONEY, in_base64("money/money.proto", money)):
        schema = protobuf_schema(top, {"money/money.proto": reference})
        order = new(schema, "Order")
        order.sum.cents = 7
        assert read(schema, order)["sum"] == {"cents": 7}
        assert schema.type_at([1]).full_name == "shop.Special"


@pytest.mark.parametrize("name", ["../x.proto", "/etc/passwd", "a/../../x.proto", "/dev/zero"])
def test_descriptors_in_base64_import_no_other_files(name):
    file = descriptor_pb2.FileDescriptorProto(name="x", dependency=[name])
    with pytest.raises(UnusableSchema, match=r"not allowed in the virtual path|File not found"):
        protobuf_schema(b64encode(file.SerializeToString()).decode(), {})


def test_text_and_descriptors_in_base64_import_each_other():
    names = ("low.proto", "middle.proto", "high.proto")
    texts = {
        "low.proto": 'syntax = "proto3"; message Low { map<string, int32> low = 1; }',
        "middle.proto": 'syntax = "proto3"; import "low.proto"; message Middle { Low low = 1; }',
        "high.proto": 'syntax = "proto3"; import "middle.proto"; message High { Middle middle = 1; }',
    }
    for count in range(4):
        for encoded in combinations(names, count):
            given = {n: in_base64(n, texts) if n in encoded else texts[n] for n in names}
            high = new(protobuf_schema(given.pop("high.proto"), given), "High")
            high.middle.low.low["x"] = 5
            schema = protobuf_schema(texts["high.proto"], given)
            assert read(schema, high) == {"middle": {"low": {"low": {"x": 5}}}}, encoded


# `SHOP_WITH_ENTRIES` is the text that Confluent's registry generates from the descriptor of `SHOP`.
SHOP = """syntax = "proto3";
package shop;
message Order {
  map<string, int32> stock = 1;
  message Line { string item = 1; map<int32, Part> parts = 2; message Part { string name = 1; } }
  map<string, Line> more = 2;
  message Note { string text = 1; }
}
"""
SHOP_WITH_ENTRIES = """syntax = "proto3";
package shop;
message Order {
  repeated .shop.Order.StockEntry stock = 1;
  repeated .shop.Order.MoreEntry more = 2;
  message StockEntry { option map_entry = true; string key = 1; int32 value = 2; }
  message Line {
    string item = 1;
    repeated .shop.Order.Line.PartsEntry parts = 2;
    message PartsEntry {
      option map_entry = true;
      int32 key = 1;
      .shop.Order.Line.Part value = 2;
    }
    message Part { string name = 1; }
  }
  message MoreEntry { option map_entry = true; string key = 1; .shop.Order.Line value = 2; }
  message Note { string text = 1; }
}
"""
# Values of Confluent's serializer for Python, behind byte 0 and the id: it counts the entries of maps.
OF_PYTHON = {
    "0400020a0370656e": {"item": "pen", "parts": {}},
    "060002020a03636170": {"name": "cap"},
    "0400060a046c617465": {"text": "late"},
    "000a050a01611001": {"stock": {"a": 1}, "more": {}},
}
# The same values of that for Java, by a text without entries: it does not count them.
OF_JAVA = {
    "0400000a0370656e": {"item": "pen", "parts": {}},
    "060000000a03636170": {"name": "cap"},
    "0400020a046c617465": {"text": "late"},
    "000a050a01611001": {"stock": {"a": 1}, "more": {}},
}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (SHOP, OF_JAVA),
        (SHOP_WITH_ENTRIES, OF_PYTHON),
        (in_base64("shop.proto", {"shop.proto": SHOP}), OF_PYTHON),
    ],
    ids=["text", "text with entries", "descriptor"],
)
def test_messages_after_maps_are_found(text, values):
    schema = pickle.loads(pickle.dumps(protobuf_schema(text, {})))
    for framed, expected in values.items():
        indexes, payload = message_indexes(memoryview(bytes.fromhex(framed)))
        assert schema.decode(payload, schema.type_at(indexes)) == expected


@pytest.mark.parametrize(("text", "at"), [(SHOP, 2), (SHOP, 3), (SHOP_WITH_ENTRIES, 0)])
def test_entry_of_a_map_is_no_message(text, at):
    with pytest.raises(UndecodedValue, match=f"message at .0, {at}. is the entry of a map"):
        protobuf_schema(text, {}).type_at([0, at])


@pytest.mark.parametrize("descriptors", [b"", b"\xff\xff", b"\x0a\x03\x0a\x01a\x00"])
def test_malformed_descriptors_are_refused(descriptors):
    with pytest.raises(UnusableSchema, match="no descriptors of Protobuf"):
        ProtobufSchema(descriptors)


def test_hanging_compiler_is_killed(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(protoc, "COMPILER_SECONDS_MAX", 0.01)
    with pytest.raises(UnusableSchema, match="took more than"):
        protobuf_schema(MONEY, {})


def test_missing_compiler_is_named(monkeypatch, tmp_path):
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -S -m "$@"\n')
    program.chmod(0o755)
    assert subprocess.run([program, "-m", "this"], capture_output=True, check=False).returncode == 0
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(UnusableSchema, match=r"pip install 'trimaran\[schemas\]'"):
        protobuf_schema(MONEY, {})


@pytest.mark.parametrize("module", ["descriptor_pb2", "descriptor_pool"])
def test_missing_protobuf_is_named(schema, module, monkeypatch):
    descriptors = schema.__reduce__()[1][0]
    monkeypatch.setattr(protobuf, module, imported_later("absent_library"))
    for read_it in (lambda: ProtobufSchema(descriptors), lambda: protobuf_schema(MONEY, {})):
        with pytest.raises(UnusableSchema, match=r"needs absent_library\. .*trimaran\[schemas\]"):
            read_it()


def test_schema_is_the_last_file_of_descriptors():
    texts = {
        "a.proto": 'syntax = "proto3"; message A {}',
        "b.proto": 'syntax = "proto3"; message B {}',
    }
    files = descriptor_pb2.FileDescriptorSet()
    for name in texts:
        files.MergeFromString(protoc.compiled(name, texts))
    for order, last in ((files.file, "B"), (reversed(files.file), "A")):
        descriptors = descriptor_pb2.FileDescriptorSet(file=list(order)).SerializeToString()
        schema = ProtobufSchema(descriptors)
        assert schema.type_named("").full_name == last
        assert {schema.type_named(name).full_name for name in "AB"} == {"A", "B"}


def test_text_resembling_base64_is_text():
    """Without its punctuation, the text is the base64 form of a descriptor."""
    text = "message KpzJbtCTAqFEp {}"
    descriptor_pb2.FileDescriptorProto.FromString(b64decode(text))
    assert protobuf_schema(text, {}).type_at([0]).full_name == "KpzJbtCTAqFEp"


def test_errors_of_long_messages_are_short():
    name = "M" * 400
    schema = protobuf_schema(f'syntax = "proto3"; message {name} {{ int32 a = 1; }}', {})
    descriptor = schema.type_at([0])
    with pytest.raises(UndecodedValue) as undecoded:
        schema.decode(memoryview(b"\xff"), descriptor)
    told = str(undecoded.value).partition(" (")[2].rpartition(")")[0]
    assert told.startswith("Error parsing message")
    assert len(told) == 200
    with pytest.raises(UnencodedValue) as unencoded:
        schema.encode({"b": 1}, descriptor)
    told = str(unencoded.value).partition(" (")[2].removesuffix(")")
    assert len(told) == 300


def test_maps_are_written_in_the_order_of_keys():
    text = 'syntax = "proto3"; message A { map<string, int32> m = 1; }'
    schema = protobuf_schema(text, {})
    keys = [chr(number) for number in range(ord("a"), ord("z"))]
    for order in (keys, keys[::-1], keys[10:] + keys[:10]):
        made = schema.encode({"m": dict.fromkeys(order, 1)}, schema.type_at([0]))
        assert made == b"".join(b"\n\5\n\1" + key.encode() + b"\x10\1" for key in keys)


def test_any_is_encoded_with_types_of_schema():
    text = 'syntax = "proto3"; import "google/protobuf/any.proto"; package own; '
    text += "message A { google.protobuf.Any any = 1; int32 x = 2; }"
    schema = protobuf_schema(text, {})
    value = {"any": {"@type": "type.googleapis.com/own.A", "x": 5}}
    made = schema.encode(value, schema.type_at([0]))
    assert made == b"\n\x1f\n\x19type.googleapis.com/own.A\x12\x02\x10\x05"


def test_map_entries_equal_those_of_compiler():
    for text in (SHOP, SHOP_WITH_ENTRIES):
        order = protobuf_schema(text, {}).type_at([0])
        entry = order.fields_by_name["stock"].message_type
        made = descriptor_pb2.DescriptorProto()
        entry.CopyToProto(made)
        assert made.options.map_entry
        assert not made.reserved_range
        order.CopyToProto(made)
        assert sorted(nested.name for nested in made.nested_type) == [
            *("Line", "MoreEntry", "Note", "StockEntry")
        ]


@pytest.mark.parametrize("size", [255, 256])
def test_name_of_an_import_has_a_bound(size):
    name = "x" * (size - 6) + ".proto"
    text = f'syntax = "proto3"; import "{name}"; message A {{ money.Sum sum = 1; }}'
    if size == 255:
        assert protobuf_schema(text, {name: MONEY}).type_at([0]).full_name == "A"
    else:
        with pytest.raises(UnusableSchema, match="no name of an imported"):
            protobuf_schema(text, {name: MONEY})


def test_several_imports_share_a_folder():
    names = ["deep/er/a.proto", "deep/er/b.proto", "deep/c.proto"]
    imports = "".join(f'import "{name}";' for name in names)
    texts = {name: f'syntax = "proto3"; message {name[-7].upper()} {{}}' for name in names}
    schema = protobuf_schema(
        f'syntax = "proto3"; {imports} message Top {{ A a = 1; C c = 2; }}', texts
    )
    assert schema.type_named("C").full_name == "C"


@pytest.mark.parametrize("name", ["grpc_tools/absent.proto", "No module named.proto"])
def test_other_failures_of_compiler_are_reported(name):
    with pytest.raises(UnusableSchema, match=f"compiler refuses the schema: (?s:.)*{name}"):
        protobuf_schema(f'syntax = "proto3"; import "{name}"; message A {{}}', {})


def test_error_of_compiler_is_truncated():
    with pytest.raises(UnusableSchema) as refused:
        protobuf_schema("".join(f"wrong{at} " for at in range(1_000)), {"b.proto": "x;" * 1_000})
    assert len(str(refused.value).partition("schema: ")[2]) <= 600
    with pytest.raises(UnusableSchema) as refused:
        protobuf_schema(
            'syntax = "proto3"; message A { int32 a = 1; ' + "B b = 1; " * 400 + "}", {}
        )
    assert len(str(refused.value).partition("schema: ")[2]) == 600


def test_descriptors_have_a_bound(monkeypatch):
    size = len(protoc.compiled("a.proto", {"a.proto": MONEY}))
    monkeypatch.setattr(protoc, "DESCRIPTORS_BYTES_MAX", size)
    assert len(protoc.compiled("a.proto", {"a.proto": MONEY})) == size
    monkeypatch.setattr(protoc, "DESCRIPTORS_BYTES_MAX", size - 1)
    with pytest.raises(UnusableSchema, match=f"take {size} bytes, and at most {size - 1} are read"):
        protoc.compiled("a.proto", {"a.proto": MONEY})


def test_failed_compiler_is_reported_with_its_message(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "$@" >&2\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    (tmp_path / "a.proto").write_text(MONEY)
    for compile_it in (
        lambda: protobuf_schema(MONEY, {}),
        lambda: protoc.compiled_file(tmp_path / "a.proto"),
    ):
        with pytest.raises(
            UnusableSchema, match=r"refuses the schema: -m grpc_tools\.protoc .*/trimaran-protoc-"
        ):
            compile_it()
    program.write_text("#!/bin/sh\nexit 4\n")
    with pytest.raises(UnusableSchema, match=r"refuses the schema: 4$"):
        protobuf_schema(MONEY, {})
