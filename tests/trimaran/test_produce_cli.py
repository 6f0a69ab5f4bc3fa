"""`produce` with headers, nulls, formats, codecs, schemas and rows of JSON, read back by `consume`."""

import itertools
import json
import time
from base64 import b64encode

import pytest

from tests.wire.values.naive_registry import naive_registry
from trimaran.cli.app import run
from trimaran.client.positions import Position
from trimaran.client.reader import PartitionReader
from trimaran.errors.user_error import Exit
from trimaran.log.codecs.compression import Compression
from trimaran.testing import EmbeddedKafka
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.identity import Offset, TopicPartition

NUMBERS = itertools.count()
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture
def topic(kafka):
    return kafka.create_topic(f"t{next(NUMBERS)}", partitions=3, configs={"retention.ms": -1})


@pytest.fixture
def called(kafka, capsysbinary, monkeypatch, tmp_path):
    """Returns a function that runs a command with stdin and returns its output, messages and exit code."""
    monkeypatch.setattr("trimaran.cli.app._end_like_ctrl_c", lambda: None)  # this process continues

    def call(*words, stdin=b""):
        if words[0] == "produce":
            file = tmp_path / "stdin"
            file.write_bytes(stdin)
            words = (*words, "--file", str(file))
        with pytest.raises(SystemExit) as ended:
            run([*map(str, words), "-b", kafka.bootstrap])
        said = capsysbinary.readouterr()
        return said.out, said.err.decode(), int(ended.value.code)

    return call


def stored(kafka, topic):
    """Returns (partition, record) of each record, and the codecs of all batches."""
    places = [TopicPartition(topic, index) for index in range(3)]
    with BlockingClient(kafka.bootstrap) as client:
        client.refresh([topic])
        reader = PartitionReader(client, places, is_committed=False)
        records = [
            (where.partition, record)
            for where, record in reader.records(Position(offset=Offset(0)), True)
        ]
        fetched = [each for where in places for each in reader.fetch(where, Offset(0), wait=False)]
    return sorted(records), {Compression(each.batch.compression) for each in fetched}


def contents(kafka, topic):
    return [
        (record.key, record.value, [tuple(header) for header in record.headers])
        for _, record in stored(kafka, topic)[0]
    ]


def test_headers_nulls_and_separator(kafka, topic, called):
    words = ("-k", "|", "--null", "NIL", "-H", "a=1", "-H", "b=", "-H", "c", "-p", "1")
    _, said, code = called("produce", topic, *words, stdin=b"k|v\nk|NIL\nNIL|v\nNIL\n")
    assert (said, code) == ("4 records acknowledged\n", 0)
    headers = [("a", b"1"), ("b", b""), ("c", None)]
    expected = [(b"k", b"v"), (b"k", None), (None, b"v"), (None, None)]
    assert contents(kafka, topic) == [(*each, headers) for each in expected]
    assert {partition for partition, _ in stored(kafka, topic)[0]} == {1}


@pytest.mark.parametrize("acks", ["all", "1"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_and_acknowledged(kafka, topic, called, acks, codec):
    _, said, code = called(
        "produce", topic, "-z", codec, "--acks", acks, "-p", "0", stdin=b"same text\n" * 200
    )
    assert (said, code) == ("200 records acknowledged\n", 0)
    records, codecs = stored(kafka, topic)
    assert ([record.value for _, record in records], codecs) == (
        [b"same text"] * 200,
        {Compression[codec.upper()]},
    )


def test_format_names_parts_of_line(kafka, topic, called):
    form = r"%p %T\t%k|%h|%s"
    _, said, code = called(
        "produce", topic, "--format", form, stdin=b"2 77\tk|a=1,b=2|v|w\n0 78\t||\n"
    )
    assert (said, code) == ("2 records acknowledged\n", 0)
    first, second = stored(kafka, topic)[0]
    assert (first[0], first[1][1:4]) == (0, (78, b"", b""))
    assert (second[0], second[1][1:4]) == (2, (77, b"k", b"v|w"))
    assert [tuple(each) for each in second[1].headers] == [("a", b"1"), ("b", b"2")]


def test_rows_of_consume_are_same_records(kafka, topic, called):
    """Keys, values and headers are bytes of every kind, in several partitions; each record is in the same partition
    again.
    """
    parts = [None, b"", b"text", b"\xff\0\n", "ä€😀".encode(), bytes(range(256))]
    rows = [
        json.dumps(
            {
                **({"key": None} if key is None else {"key_base64": coded(key)}),
                **({"value": None} if value is None else {"value_base64": coded(value)}),
                "headers": [["h", None], ["g", {"base64": coded(value or b"")}]],
                "partition": number % 3,
                "timestamp_ms": 1_000 + number,
            }
        )
        for number, (key, value) in enumerate((k, v) for k in parts for v in parts)
    ]
    assert called("produce", topic, "-i", "json", stdin="\n".join(rows).encode())[2] == 0
    printed, _, _ = called("consume", topic, "-e", "-o", "json")
    copy = kafka.create_topic(f"{topic}-copy", partitions=3, configs={"retention.ms": -1})
    _, said, code = called("produce", copy, "--input", "json", stdin=printed)
    assert (said, code) == (f"{len(rows)} records acknowledged\n", 0)
    assert stored(kafka, copy)[0] == stored(kafka, topic)[0]
    assert len(stored(kafka, copy)[0]) == len(parts) ** 2


def coded(data):
    return b64encode(data).decode()


def test_partitions_of_rows_may_be_chosen_again(kafka, topic, called):
    row = b'{"key": "k", "value": "v", "partition": 7}\n'
    _, said, code = called("produce", topic, "-i", "json", stdin=row)
    assert ("has no partition 7" in said, code) == (True, Exit.USAGE)
    assert called("produce", topic, "-i", "json", "--repartition", stdin=row)[2] == 0
    assert called("produce", topic, "-i", "json", "-p", "1", stdin=row)[2] == 0
    assert len(contents(kafka, topic)) == 2


def test_values_are_encoded_and_decoded_by_registry(kafka, topic, called):
    with naive_registry() as registry:
        number = registry.register(f"{topic}-value", ORDER)
        words = ("--registry", registry.url)
        _, said, code = called("produce", topic, *words, "-p", "0", stdin=b'{"id": 42}\n')
        assert (said, code) == ("1 record acknowledged\n", 0)
        assert contents(kafka, topic) == [(None, b"\0" + number.to_bytes(4, "big") + b"\x54", [])]
        assert called("consume", topic, "-e", *words)[0] == b'{"id": 42}\n'
        assert called("consume", topic, "-e", *words, "-f", "%o %s\\n")[0] == b'0 {"id": 42}\n'
        row = json.loads(called("consume", topic, "-e", "-o", "json", *words)[0])
        assert (row["value"], row["value_schema"]) == ({"id": 42}, f"id {number}")
        _, said, code = called("produce", topic, *words, stdin=b'{"id": "x"}\n')
        assert ("line 1 cannot be encoded\n  why: the value.id is 'x'" in said, code) == (
            True,
            Exit.USAGE,
        )


def test_undecodable_value_fails_or_is_null(topic, called):
    called("produce", topic, "-p", "0", stdin=b"plain\n")
    with naive_registry() as registry:
        words = ("consume", topic, "-e", "--registry", registry.url)
        _, said, code = called(*words)
        assert (f"{topic}-0 at offset 0 cannot be decoded" in said, code) == (True, Exit.NO)
        assert called(*words, "--on-error", "null")[0] == b"\n"
        row = json.loads(called(*words, "--on-error", "null", "-o", "json")[0])
    assert (row["value"], row["value_base64"]) == (None, "cGxhaW4=")
    assert "does not begin with the id of a schema" in row["value_error"]
    called("produce", topic, "-i", "json", "-p", "0", stdin=b'{"value_base64": "AAAAAAFU"}\n')
    words = (
        "consume",
        topic,
        "-e",
        "--offset",
        "-1",
        "-p",
        "0",
        "--registry",
        "http://127.0.0.1:9",
    )
    _, said, code = called(*words)
    assert ("registry does not answer" in said, code) == (True, Exit.CANNOT_CONNECT)


def test_local_schemas_of_keys_and_values(kafka, topic, called, tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    words = ("--key-schema", "msgpack", "--value-schema", file)
    stdin = b'{"a": 1};{"id": 42}\n'
    assert called("produce", topic, "-k", ";", *words, stdin=stdin)[2] == 0
    assert contents(kafka, topic) == [(b"\x81\xa1a\x01", b"\x54", [])]
    assert called("consume", topic, "-e", "-k", ";", *words)[0] == stdin


@pytest.mark.parametrize(
    ("words", "stdin", "told"),
    [
        (("-i", "json", "-k", ":"), b"", "--key-separator and --input json cannot be combined"),
        (("-i", "json"), b'{"value": 5}\n', "line 1 is no record\n  why: '5' is no string"),
        (("-i", "json"), b'{"value": ""}\n{}\n', "line 2 is no record\n  why: it has no value"),
        (("--format", "%k%s"), b"", "no text is before %s"),
        (("--format", "%k %k"), b"", "%k is there twice"),
        (("--format", "%o %s"), b"", "'%o' is no token"),
        (("--format", "%k"), b"", "it has no value, %s"),
        (("--format", "%s\\q"), b"", "is no token of a line"),
        (("--format", "%p:%s"), b"x:y\n", "it does not match the format '%p:%s'"),
        (("--format", "%h:%s"), b"=1:y\n", "the header '=1' has no name"),
        (("--format", "%k:%s", "-k", ":"), b"", "cannot be combined"),
        (("-H", "=1"), b"", "the header '=1' has no name"),
        (("--acks", "1", "--transactional-id", "t"), b"", "cannot be combined"),
        (("--value-schema", "orders-value"), b"", "--value-schema orders-value needs --registry"),
        (("--value-schema", "gone.avsc"), b"", "gone.avsc"),
        (("--value-schema", "msgpack"), b"x\n", "is no JSON to be encoded by the schema"),
    ],
)
def test_wrong_words_and_lines_are_explained(kafka, topic, called, words, stdin, told):
    _, said, code = called("produce", topic, *words, stdin=stdin)
    assert (told in said, code) == (True, Exit.USAGE)
    assert contents(kafka, topic) == []


def test_rate_limits_printed_records(topic, called):
    called("produce", topic, stdin=b"x\n" * 5)
    before = time.monotonic()
    assert called("consume", topic, "-e", "--rate", "10")[0] == b"x\n" * 5
    assert time.monotonic() - before >= 0.4
