"""Options are parsed once, spelled as in Spark's Kafka source, and errors name the option."""

import pytest

from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_metadata.source import parse_options
from trimaran.spark.options import EARLIEST, LATEST, OptionError, duration_seconds


def parse(**options):
    return LogOptions.parse({"path": "/data", **options})


def test_options_have_their_defaults():
    options = parse()
    assert options.directories.paths == ("/data",)
    assert (options.level, options.directories.end, options.directories.replicas) == (
        "records",
        "high_watermark",
        "leader",
    )
    assert options.verify_crc
    assert not options.include_headers


def test_letter_case_is_ignored():
    assert parse(INCLUDEHEADERS="True").include_headers


def test_several_paths_are_parsed():
    assert LogOptions.parse({"paths": '["/a", "/b"]'}).directories.paths == ("/a", "/b")


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({}, {("orders", 0), ("orders", 1), ("other", 0)}),
        ({"subscribe": "orders, x"}, {("orders", 0), ("orders", 1)}),
        ({"subscribePattern": "^o.*r$"}, {("other", 0)}),
        ({"subscribePattern": "rder"}, {("orders", 0), ("orders", 1)}),
        ({"subscribePattern": " offsets|the "}, {("other", 0)}),
        ({"assign": '{"orders":[1]}'}, {("orders", 1)}),
        ({"subscribe": "__consumer_offsets"}, {("__consumer_offsets", 0)}),
    ],
)
def test_topics_are_chosen_by_options(options, topics):
    there = {("orders", 0), ("orders", 1), ("other", 0), ("__consumer_offsets", 0)}
    assert {tp for tp in there if tp in parse(**options).topics} == topics


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscrib": "x"}, "did you mean subscribe"),
        ({"end": "soon"}, "one of high_watermark, log_end"),
        ({"verifyCrc": "maybe"}, "one of true, false"),
        ({"startingOffsets": "latest"}, "startingOffsets"),
        ({"startingOffsets": '{"t": 5}'}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "startingOffsets"),
        ({"assign": "[]"}, "assign"),
        ({"assign": "{}"}, "assign"),
        ({"subscribe": " , "}, "topics parted by commas"),
        ({"subscribePattern": " "}, "regular expression"),
        ({"subscribePattern": "("}, "regular expression"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "only one"),
        ({"minPartitions": "0"}, "above 0"),
        ({"kafka.isolation.level": "read_most"}, "one of read_uncommitted, read_committed"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "startingOffsets"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets"),
        ({"startingTimestamp": "-5"}, "milliseconds"),
        ({"startingOffsetsByTimestamp": "7"}, "startingOffsetsByTimestamp"),
        ({"level": "batches", "includeHeaders": "true"}, "has no effect here"),
        ({"level": "segments", "includeControl": "true"}, "has no effect here"),
        ({"maxOffsetsPerTrigger": "many"}, "above 0"),
        ({"kafka.check.crcs": "false", "verifyCrc": "true"}, "kafka.check.crcs is false"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets says where"),
        ({"kafka.security.protocol": "SSL"}, "kafka.bootstrap.servers only"),
        ({"kafka.bootstrap.servers": "a:1"}, "there is a path, too"),
        ({"kafka.max.pol.records": "5"}, "did you mean kafka.max.poll.records?"),
    ],
)
def test_wrong_options_are_named(options, told):
    with pytest.raises(OptionError, match=r"^kafka_log: ") as error:
        parse(**options)
    assert told in str(error.value)


def test_path_is_required():
    with pytest.raises(OptionError, match="no path"):
        parse_options({})


@pytest.mark.parametrize(("text", "nodes"), [("all", "all"), ("1, 3", frozenset({1, 3}))])
def test_nodes_are_parsed(text, nodes):
    assert parse_options({"path": "x", "nodes": text}).nodes == nodes


def test_broker_options_are_parsed():
    options = LogOptions.parse(
        {
            "kafka.bootstrap.servers": "a:1,b:2",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.jaas.config": "secret",
            "subscribe": "t",
        }
    )
    assert options.directories is None
    assert options.cluster.bootstrap == "a:1,b:2"
    assert dict(options.cluster.security)["security.protocol"] == "SASL_SSL"
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"end": "log_end"}, "it is of node directories"),
        ({"level": "segments"}, "brokers tell nothing of segments"),
        ({"kafka.bootstrap.servers": "no address"}, "HOST:PORT"),
        ({"kafkaConsumer.pollTimeoutMs": "soon"}, "above 0"),
    ],
)
def test_options_brokers_cannot_serve_are_refused(options, told):
    with pytest.raises(OptionError, match=told):
        LogOptions.parse({"kafka.bootstrap.servers": "a:1", **options})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"level": "segments"}, "segments have no offsets"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            "more than maxOffsetsPerTrigger",
        ),
        ({"maxTriggerDelay": "a while"}, "15m or 500ms"),
        ({"replicas": "all"}, "one row for a record"),
    ],
)
def test_options_meaningless_for_streams_are_refused(options, told):
    with pytest.raises(OptionError, match=told):
        LogOptions.parse({"path": "/data", **options}, streaming=True)


def test_stream_begins_at_the_end_by_default():
    assert LogOptions.parse({"path": "/d"}, streaming=True).starting.edge == LATEST
    assert LogOptions.parse({"path": "/d"}).starting.edge == EARLIEST
    given = LogOptions.parse({"path": "/d", "startingOffsets": '{"t":{"0":-1}}'}, streaming=True)
    assert given.starting.offsets == {("t", 0): LATEST}


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("500ms", 0.5), ("2 h", 7200), ("250", 0.25)]
)
def test_durations_are_parsed(text, seconds):
    assert duration_seconds(text) == seconds
