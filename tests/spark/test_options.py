"""Options are parsed once, as Spark's Kafka source spells them, and what is wrong is named."""

import pytest

from spark.kafka_log.options import LogOptions
from spark.kafka_metadata.source import parse_options
from spark.options import OptionError


def parse(**options):
    return LogOptions.parse({"path": "/data", **options})


def test_defaults():
    options = parse()
    assert options.paths == ("/data",)
    assert (options.level, options.end, options.replicas) == ("records", "high_watermark", "leader")
    assert options.verify_crc
    assert not options.include_headers


def test_letter_case_does_not_count():
    assert parse(INCLUDEHEADERS="True").include_headers


def test_several_paths():
    assert LogOptions.parse({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({}, {("orders", 0), ("orders", 1), ("other", 0)}),
        ({"subscribe": "orders, x"}, {("orders", 0), ("orders", 1)}),
        ({"subscribePattern": "o.*r"}, {("other", 0)}),
        ({"assign": '{"orders":[1]}'}, {("orders", 1)}),
        ({"subscribe": "__consumer_offsets"}, {("__consumer_offsets", 0)}),
    ],
)
def test_choice_of_topics(options, topics):
    there = {("orders", 0), ("orders", 1), ("other", 0), ("__consumer_offsets", 0)}
    assert {tp for tp in there if tp in parse(**options).topics} == topics


@pytest.mark.parametrize(
    ("text", "offset"),
    [("earliest", 3), ('{"t":{"0":7}}', 7), ('{"t":{"0":-1}}', 20), ('{"t":{"0":1}}', 3)],
)
def test_starting_offsets(text, offset):
    assert parse(startingOffsets=text).starting.resolve("t", 0, 3, 20) == offset


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
        ({"subscribePattern": "("}, "regular expression"),
        ({"subscribe": "a", "assign": "{}"}, "only one"),
        ({"minPartitions": "0"}, "above 0"),
        ({"kafka.isolation.level": "read_committed"}, "unknown option"),
    ],
)
def test_wrong_options_are_named(options, told):
    with pytest.raises(OptionError, match=r"^kafka_log: ") as error:
        parse(**options)
    assert told in str(error.value)


def test_a_path_is_needed():
    with pytest.raises(OptionError, match="no path"):
        parse_options({})


@pytest.mark.parametrize(("text", "nodes"), [("all", "all"), ("1, 3", frozenset({1, 3}))])
def test_nodes(text, nodes):
    assert parse_options({"path": "x", "nodes": text}).nodes == nodes
