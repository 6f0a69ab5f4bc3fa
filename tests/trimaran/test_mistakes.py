"""Every noun responds to a typing mistake with three lines and the documented exit code."""

import pytest

from tests.trimaran.mistakes import MISTAKES, told_of_mistakes
from trimaran.cli.commands import COMMANDS
from trimaran.testing import EmbeddedKafka

assert_told = told_of_mistakes


@pytest.mark.slow
def test_every_mistake_is_reported(assert_told):
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t", partitions=2)
        assert_told(kafka.bootstrap, kafka.controller_bootstrap)


# Commands without arguments that could be mistyped.
WITHOUT_MISTAKES = {"down", "purge", "console", "doctor", "version"}


def test_every_noun_has_mistakes():
    nouns = {words[0] for words, _, _ in COMMANDS}
    assert nouns - {line.split()[0] for line, _, _ in MISTAKES} == WITHOUT_MISTAKES
