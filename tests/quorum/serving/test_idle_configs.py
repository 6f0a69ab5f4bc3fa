"""What is told of configs that change nothing."""

import logging

import pytest

from quorum.serving.idle_configs import UNDECLARED_MAX, IdleConfigs
from tests.quorum.metadata.build import config, image_of, replay

BROKER = (4, "1")


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.WARNING)

    def publish(*records):
        caplog.clear()
        idle.publish(replay(records), image_of(*records), None)
        return [record.getMessage() for record in caplog.records]

    idle = IdleConfigs(1)
    return publish


def test_a_name_that_nothing_declares_is_told_once(told):
    mistyped = config("log.retention.msec", "5", BROKER)
    (line,) = told(mistyped)
    assert "log.retention.msec" in line
    assert "no plug-in reads it" in line
    assert told(mistyped) == []
    assert told(config("log.retention.ms", "5", BROKER)) == []


def test_made_up_names_are_told_up_to_a_bound(told):
    lines = told(*(config(f"made.up.{n}", "5", BROKER) for n in range(UNDECLARED_MAX + 5)))
    assert len(lines) == UNDECLARED_MAX
    assert told(config("one.more", "5", BROKER)) == []
