"""The flags of Kafka 4.4's tools, as each prints them with `--help`, are those of our answers and their page."""

import re

import pytest

from tests.interop import apache_kafka
from tests.trimaran.errors.test_kafka_words import FLAGS

# The command here that answers the flags of each tool.
TOOLS = {
    "acls": "acls",
    "configs": "configs",
    "console-consumer": "consume",
    "console-producer": "produce",
    "consumer-groups": "groups",
    "delegation-tokens": "tokens",
    "dump-log": "logs",
    "leader-election": "partitions",
    "log-dirs": "log-dirs",
    "reassign-partitions": "reassign",
    "topics": "topics",
}


@pytest.mark.parametrize("tool", sorted(TOOLS.keys() & apache_kafka.TOOLS.keys()))
def test_help_has_no_flag_without_answer(tool):
    done = apache_kafka.tool(tool, "--help", check=False)
    printed = set(re.findall(r"^--([a-z][a-z.-]+)", done.stdout + done.stderr, re.MULTILINE))
    assert printed, done
    assert printed - set(FLAGS[TOOLS[tool]].split()) - {"version"} == set()
