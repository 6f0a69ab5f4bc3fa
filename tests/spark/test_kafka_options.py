"""Each option of Spark's connector, and each property of Kafka's clients, has one decision, and the readers obey it."""

from pathlib import Path

import pytest

from tests.checks import check_each
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_metadata.source import parse_options
from trimaran.spark.kafka_options import (
    CONSUMER_PROPERTIES,
    PRODUCER_PROPERTIES,
    READING,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    WRITING,
)
from trimaran.spark.options import OptionError, OptionReader

# Compared with the jars by `tests/interop/test_spark_options.py`.
LISTED = Path(__file__).parent / "kafka_log/testdata/connector_options.txt"
VALUES = {
    "subscribe": "t",
    "subscribePattern": "t",
    "assign": '{"t":[0]}',
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "startingTimestamp": "5",
    "endingTimestamp": "5",
    "startingOffsetsByTimestamp": '{"t":{"0":5}}',
    "endingOffsetsByTimestamp": '{"t":{"0":5}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "failOnDataLoss": "false",
    "includeHeaders": "true",
    "kafka.bootstrap.servers": "h:1",
    "kafka.isolation.level": "read_committed",
    "kafka.check.crcs": "false",
}


def listed(kind):
    lines = [line.split() for line in LISTED.read_text().splitlines() if line[0] != "#"]
    return {name for of, name in lines if of == kind}


def names(options):
    found = [option.name.lower() for option in options]
    assert len(found) == len(set(found))
    return set(found)


def test_every_option_of_the_connector_is_decided():
    assert names((*SOURCE_OPTIONS, *SINK_OPTIONS)) == listed("connector")


@pytest.mark.parametrize(
    ("kind", "decided"), [("consumer", CONSUMER_PROPERTIES), ("producer", PRODUCER_PROPERTIES)]
)
def test_every_client_property_is_decided(kind, decided):
    ours = {"kafka.trimaran.ssl.crl.location"}
    assert names(decided) - ours == {f"kafka.{name}" for name in listed(kind)}


def outcome(option):
    """Returns what a reader does with the option: an error, or the notes, in a batch and in a stream."""
    given = {"kafka.bootstrap.servers": "h:1", option.name: VALUES.get(option.name, "5")}
    told = []
    for streaming in (False, True):
        try:
            told.append(LogOptions.parse(given, streaming=streaming).notes)
        except OptionError as error:
            told.append(str(error))
    return told


def check_decision(option):
    batch, stream = outcome(option)
    match option.effect:
        case "acts" if "of a batch" in option.why:
            assert batch == ()
            assert "a stream has no end" in stream
        case "acts" if "of a stream" in option.why:
            assert f"no effect of {option.name}: " in batch[0]
            assert stream == ()
        case "acts":
            assert batch == stream == ()
        case "no effect":
            assert batch == stream == (f"kafka_log: no effect of {option.name}: {option.why}.",)
        case "refused":
            why = f"kafka_log: option {option.name}: is not supported: {option.why}"
            assert batch == stream == why


def test_readers_obey_every_decision():
    decided = {option.name: option for option in READING.values()}
    check_each(decided.items(), lambda item: check_decision(item[1]))


def test_acting_options_are_read_by_name(monkeypatch):
    """An option that acts is one that the parser reads, in a batch or in a stream."""
    seen = set()
    real = OptionReader.get

    def get(self, name):
        seen.add(name.lower())
        return real(self, name)

    monkeypatch.setattr(OptionReader, "get", get)
    LogOptions.parse({"kafka.bootstrap.servers": "h:1"})
    acting = {name for name, option in READING.items() if option.effect == "acts"}
    assert acting <= seen
    assert {name for name in seen if name in READING} == acting


def test_ineffective_options_are_reported_by_reason():
    given = {"path": "/p", "KAFKA.GROUP.ID": "g", "groupIdPrefix": "p", "kafka.acks": "all"}
    assert LogOptions.parse(given).notes == (
        "kafka_log: no effect of kafka.group.id, groupIdPrefix: no consumer group is used.",
        "kafka_log: no effect of kafka.acks: it is of writing.",
    )


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        (
            "sasl.login.callback.handler.class",
            "x.oauthbearer.OAuthBearerLoginCallbackHandler",
            True,
        ),
        ("sasl.login.callback.handler.class", "com.example.Login", False),
        ("ssl.engine.factory.class", "o.a.k.common.security.ssl.DefaultSslEngineFactory ", True),
        ("ssl.engine.factory.class", "", False),
    ],
)
def test_classes_of_kafkas_own_are_accepted(name, value, accepted):
    given = {"path": "/p", f"kafka.{name}": value}
    if accepted:
        assert LogOptions.parse(given).notes
    else:
        with pytest.raises(OptionError, match="classes of Java do not run here"):
            LogOptions.parse(given)


def test_metadata_source_excuses_client_properties_only():
    given = {"path": "/p", "kafka.fetch.max.bytes": "1", "kafka.isolation.level": "read_committed"}
    assert [note.partition(": ")[2] for note in parse_options(given).notes] == [
        "no effect of kafka.fetch.max.bytes: a task fetches as fast as it can; kafka.max.partition.fetch.bytes "
        "bounds a response.",
        "no effect of kafka.isolation.level: metadata is always committed.",
    ]
    with pytest.raises(
        OptionError, match=r"kafka\.controller\.bootstrap\.servers names the quorum"
    ):
        parse_options({"path": "/p", "kafka.bootstrap.servers": "h:1"})
    with pytest.raises(OptionError, match="unknown option maxrecordsperpartition"):
        parse_options({"path": "/p", "maxRecordsPerPartition": "1"})


def test_error_names_the_direction_of_option():
    assert WRITING["subscribe"].why == "it is of reading"
    assert READING["topic"].why == "it is of writing"
    assert READING["kafka.client.id"].effect == WRITING["kafka.client.id"].effect == "acts"
