"""Warnings about configs without an effect."""

import logging

import pytest

from tests.quorum.metadata.build import config, image_of, replay
from trimaran.quorum.serving.idle_configs import IdleConfigs

BROKER = (4, "1")


@pytest.fixture
def warned(caplog):
    caplog.set_level(logging.WARNING)

    def publish(*records):
        caplog.clear()
        idle.publish(replay(records), image_of(*records), None)
        return [record.getMessage() for record in caplog.records]

    idle = IdleConfigs(1)
    return publish


def test_undeclared_name_is_reported_once(warned):
    mistyped = config("log.retention.msec", "5", BROKER)
    (line,) = warned(mistyped)
    assert "log.retention.msec" in line
    assert "no plug-in reads it" in line
    assert warned(mistyped) == []
    assert warned(config("log.retention.ms", "5", BROKER)) == []


def test_unknown_names_are_reported_up_to_bound(warned):
    lines = warned(*(config(f"made.up.{n}", "5", BROKER) for n in range(105)))
    assert len(lines) == 100
    assert warned(config("one.more", "5", BROKER)) == []


TIERED, STREAMS = "local.retention.ms", "streams.num.warmup.replicas"
TOPIC, GROUP, METRICS = 2, 32, 16


def test_each_resource_kind_reports_idle_configs_once(warned):
    lines = warned(
        config(TIERED, "5", (TOPIC, "t")),
        config("retention.ms", "5", (TOPIC, "t")),
        config(STREAMS, "1", (GROUP, "g")),
        config("interval.ms", "60000", (METRICS, "m")),
        config("log.local.retention.ms", "5", BROKER),
        config("log.retention.ms", "5", BROKER),
    )
    tiered, streams = (
        "tiered storage is not supported",
        "no assignor gives warm-up tasks, as in Kafka 4.4",
    )
    assert list(map(first_sentence, lines)) == [
        f"{TIERED} was altered for t and changes nothing: {tiered}",
        f"{STREAMS} was altered for g and changes nothing: {streams}",
        f"log.{TIERED} was altered for 1 and changes nothing: {tiered}",
    ]
    assert warned(config(TIERED, "6", (TOPIC, "t"))) == []
    assert warned(config(TIERED, "6", (TOPIC, "u"))) == []


def first_sentence(line):
    return line.partition(". ")[0]


def test_only_configs_applying_to_node_are_reported(warned):
    name = "log.local.retention.ms"
    assert warned(config(name, "5", (4, "2"))) == []
    assert warned(config(name, None, (4, ""))) == []
    (line,) = warned(config(name, "5", (4, "")))
    assert first_sentence(line).startswith(f"{name} was altered for all and")
    assert warned(config(name, "5", BROKER)) == []


def test_file_only_configs_are_reported_too(warned):
    (line,) = warned(config("config.providers", "x", BROKER))
    assert "variables are resolved when the file is read" in line


def test_foreign_kinds_and_names_are_skipped(warned):
    assert warned(config("anything", "5", (8, "1"))) == []
    assert warned(config("no.such.config", "5", (TOPIC, "t"))) == []
    assert warned(config(STREAMS, "5", (TOPIC, "t"))) == []
    assert len(warned(config(STREAMS, "5", (GROUP, "t")))) == 1
