"""Every config of every kind of resource is described as in Apache Kafka 4.4, except for documented differences."""

import pytest

from tests.node.config.described import BROKER, GROUP, METRICS, TOPIC, WORDS, rows, table
from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import image_of
from trimaran.node.config.dynamic_keys import NOT_WHILE_RUNNING, SECURITY
from trimaran.quorum.serving.config_entries import ConfigDescription

# Keys that Kafka allows to be altered, but that cannot be altered here, neither for one broker nor for all.
ONLY_READ = NOT_WHILE_RUNNING.keys() - SECURITY
# Appends share a flush without waiting for each other, so a change is answered 25 ms earlier.
OTHER_DEFAULTS = {"controller.quorum.append.linger.ms": "0"}


def described(kind, config):
    description = ConfigDescription(config, image_of().configs, synonyms=True, documentation=False)
    if kind == BROKER:
        return description.broker(None)
    of = {TOPIC: description.topic, GROUP: description.group, METRICS: description.client_metrics}
    return of[kind]("any", None)


def expected(line):
    """Returns Kafka's row with the differences: alterations of some keys are refused here, and described as
    read-only.
    """
    word, name, kind, changes, default, *synonyms = line.split(" | ")
    if word == "broker":
        changes = "read-only" if name in ONLY_READ else changes
        default = OTHER_DEFAULTS.get(name, default)
    return " | ".join((word, name, kind, changes, default, *synonyms))


@pytest.mark.parametrize("kind", WORDS, ids=WORDS.get)
def test_configs_are_described_as_kafka_describes_them(kind):
    ours = [
        line
        for line in rows(kind, described(kind, config_of(process_roles="controller")))
        if not line.startswith("broker | trimaran.")
    ]
    theirs = [line for line in table() if line.startswith(f"{WORDS[kind]} | ")]
    assert ours == [expected(line) for line in theirs]
