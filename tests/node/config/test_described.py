"""Every config of every kind of resource is described as by Apache Kafka 4.3, except for the argued differences."""

import pytest

from tests.node.config.described import BROKER, GROUP, METRICS, TOPIC, WORDS, rows, table
from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import image_of
from trimaran.node.config.dynamic_keys import NOT_WHILE_RUNNING, SECURITY
from trimaran.quorum.serving.config_entries import ConfigDescription

# Not of one broker, and not of all, which Kafka lets one alter.
ONLY_READ = NOT_WHILE_RUNNING.keys() - SECURITY
# Appends share a flush without waiting for each other: a change is answered 25 ms earlier.
OTHER_DEFAULTS = {"controller.quorum.append.linger.ms": "0"}


def described(kind, config):
    description = ConfigDescription(config, image_of().configs, synonyms=True, documentation=False)
    if kind == BROKER:
        return description.broker(None)
    of = {TOPIC: description.topic, GROUP: description.group, METRICS: description.client_metrics}
    return of[kind]("any", None)


def expected(line):
    """A row of Kafka's with what is other here: alterations of some keys are refused, and say so beforehand."""
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
