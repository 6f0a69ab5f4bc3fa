"""Options of the sink: values, wrong values, and properties of the producer that are refused or have no effect."""

import pytest

from tests.checks import check_each
from trimaran.log.codecs.compression import Compression
from trimaran.spark.kafka_options import WRITING
from trimaran.spark.options import OptionError
from trimaran.spark.sink.options import (
    BATCH_BYTES,
    TRANSACTION_MS,
    CreatedTopics,
    ExactlyOnce,
    SinkOptions,
)

BROKERS = {"kafka.bootstrap.servers": "localhost:9092"}
VALUES = {
    "kafka.acks": "all",
    "kafka.bootstrap.servers": "h:1",
    "kafka.compression.type": "zstd",
    "kafka.partitioner.ignore.keys": "true",
    "kafka.enable.idempotence": "false",
    "includeHeaders": "true",
}
ONCE = {"deliveryGuarantee": "exactly_once", "transactionalIdPrefix": "copy"}


def parse(streaming=False, **options):
    given = {name.replace("__", "."): value for name, value in options.items()}
    return SinkOptions.parse({**BROKERS, **given}, streaming=streaming)


def test_defaults_are_those_of_an_idempotent_producer():
    parsed = parse()
    assert parsed.topic is None
    assert parsed.creation is None
    assert parsed.exactly_once is None
    producer = parsed.producer
    assert producer.is_idempotent
    assert producer.acks == -1
    assert producer.compression == Compression.NONE
    assert producer.batch_bytes == BATCH_BYTES
    assert (producer.linger_seconds, producer.delivery_seconds, producer.block_seconds) == (
        0.005,
        120,
        60,
    )
    assert not producer.ignores_keys
    assert parsed.cluster.bootstrap == "localhost:9092"
    assert parsed.cluster.client_id == "spark"


def test_properties_of_the_producer_are_read():
    parsed = parse(
        topic="orders",
        kafka__acks="1",
        kafka__compression__type="zstd",
        kafka__compression__zstd__level="7",
        kafka__batch__size="1000",
        kafka__linger__ms="20",
        kafka__max__request__size="5000",
        kafka__client__id="me",
        kafka__partitioner__ignore__keys="true",
        kafka__security__protocol="PLAINTEXT",
        createTopics__partitions="6",
    )
    producer = parsed.producer
    assert (parsed.topic, producer.acks, producer.is_idempotent) == ("orders", 1, False)
    assert (producer.compression, producer.compression_level) == (Compression.ZSTD, 7)
    assert (producer.batch_bytes, producer.request_bytes) == (1000, 5000)
    assert producer.linger_seconds == 0.02
    assert producer.ignores_keys
    assert parsed.creation == CreatedTopics(6, -1)
    assert parsed.cluster.client_id == "me"
    assert parsed.cluster.security == (("security.protocol", "PLAINTEXT"),)


def test_acks_zero_becomes_acks_one():
    assert parse(kafka__acks="0").producer.acks == 1
    assert parse(kafka__acks="-1").producer.is_idempotent


def test_longest_waits_of_kafka_are_accepted():
    longest = str((1 << 63) - 1)
    producer = parse(kafka__max__block__ms=longest, kafka__linger__ms=longest).producer
    assert producer.block_seconds == producer.linger_seconds == int(longest) / 1000


@pytest.mark.parametrize("acks", ["0", "1"])
def test_requested_idempotence_needs_all_acks(acks):
    """Kafka's producer does the same; its default is acks=all."""
    asked = {"kafka__enable__idempotence": "true"}
    with pytest.raises(OptionError, match=f"kafka.acks: {acks} is too few for an idempotent"):
        parse(kafka__acks=acks, **asked)
    for given in ({}, {"kafka__acks": "all"}):
        assert parse(**asked, **given).producer.is_idempotent


def test_batch_is_no_larger_than_a_request():
    assert parse(kafka__max__request__size="2000").producer.batch_bytes == 2000
    assert parse(kafka__batch__size="0").producer.batch_bytes == 0


def check_property(option):
    given = {**BROKERS, option.name: VALUES.get(option.name, "5")}
    if option.effect == "refused":
        with pytest.raises(OptionError, match=f"option {option.name}: is not supported"):
            SinkOptions.parse(given, streaming=True)
        return
    notes = SinkOptions.parse(given, streaming=True).notes
    assert bool(notes) == (option.effect == "no effect")


def test_each_property_is_treated_as_decided():
    check_each(WRITING.values(), check_property)


def test_options_of_spark_are_accepted():
    sparks = {"checkpointLocation": "/c", "queryName": "q"}
    assert SinkOptions.parse({**BROKERS, **sparks}, streaming=True) == parse(streaming=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.acks": "2"}, "kafka.acks: '2' is not one of all, -1, 0, 1"),
        ({"kafka.compression.type": "lz5"}, "is not one of none, gzip, snappy, lz4, zstd"),
        ({"kafka.batch.size": "-1"}, "kafka.batch.size: '-1' is not a number from 0"),
        ({"kafka.linger.ms": "soon"}, "'soon' is not a number of milliseconds from 0"),
        ({"kafka.buffer.memory": "0"}, "'0' is not a number above 0"),
        ({"createTopics.partitions": "0"}, "'0' is not a number above 0, or -1"),
        ({"createTopics.partitions": "2147483648"}, "or -1; at most 2147483647"),
        ({"createTopics.replication.factor": "32768"}, "or -1; at most 32767"),
        ({"kafka.request.timeout.ms": "2147483648"}, "milliseconds from 0 to 2147483647"),
        ({"kafka.transaction.timeout.ms": "2147483648"}, "above 0, up to 2147483647"),
        ({"kafka.max.request.size": "2147483648"}, "above 0, up to 2147483647"),
        ({"kafka.max.block.ms": "9" * 400}, "milliseconds from 0 to 9223372036854775807"),
        ({"kafka.compression.gzip.level": "10"}, "'10' is not a level from -1 to 9"),
        ({"kafka.compression.gzip.level": "0"}, "'0' is not a level from -1 to 9"),
        ({"kafka.compression.lz4.level": "18"}, "'18' is not a level from 1 to 17"),
        ({"kafka.compression.zstd.level": "23"}, "'23' is not a level from -131072 to 22"),
        ({"createTopics.replication.factor": "x"}, "'x' is not a number above 0, or -1"),
        ({"topic": " "}, "topic: is empty"),
        ({"path": "/data"}, "a directory of a node cannot be written to"),
        ({"kafka.linger": "5"}, "unknown option kafka.linger; did you mean kafka.linger.ms?"),
        ({"kafka.bootstrap.servers": "a:b:c"}, "is not HOST:PORT"),
        (
            {"transactionalIdPrefix": "x"},
            "has no effect here: it is of deliveryGuarantee=exactly_once",
        ),
        ({"deliveryGuarantee": "twice"}, "is not one of at_least_once, exactly_once"),
        (ONCE, "exactly_once is of streams"),
    ],
)
def test_wrong_option_is_named(options, message):
    with pytest.raises(OptionError) as found:
        SinkOptions.parse({**BROKERS, **options}, streaming=False)
    assert message in str(found.value)


def test_brokers_are_required():
    with pytest.raises(
        OptionError, match=r"kafka.bootstrap.servers: is required.*INSERT INTO t WITH"
    ):
        SinkOptions.parse({}, streaming=False)


def test_exactly_once_needs_a_prefix_and_all_acks():
    parsed = parse(streaming=True, **ONCE)
    assert parsed.exactly_once == ExactlyOnce("copy", TRANSACTION_MS, False, None)
    for options, message in (
        ({"deliveryGuarantee": "exactly_once"}, "transactionalIdPrefix: is required"),
        ({**ONCE, "transactionalIdPrefix": "a b"}, "is not 1 to 200 letters"),
        ({**ONCE, "transactionalIdPrefix": ".."}, "is not 1 to 200 letters"),
        ({**ONCE, "kafka__acks": "1"}, "1 is too few for an idempotent producer"),
    ):
        with pytest.raises(OptionError, match=message):
            parse(streaming=True, **options)
