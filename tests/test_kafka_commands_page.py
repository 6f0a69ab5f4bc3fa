"""docs/kafka_commands.md: each tool of Kafka 4.4 with its commands and flags, and what to write here.

The page is made of the table that answers such words on the command line, and of the lists of Kafka's own help.
"""

import re
import textwrap

from tests import datadriven
from tests.test_tidy import ROOT
from tests.trimaran.errors.test_kafka_words import (
    ELSEWHERE,
    FLAGS,
    KAFKAS_COMMANDS,
    OWN,
    SCRIPTS,
)
from trimaran.errors.kafka_words import TOOLS, answer, answer_for_tool

PAGE = ROOT / "docs" / "kafka_commands.md"
HEAD = """# Kafka's command → ours

This page lists the tools of Apache Kafka 4.4 with their commands and flags, and what to write here.
A tool or flag of Kafka that is typed here has the same answer, as in `trimaran kafka-topics.sh --create`.
It is generated: `REWRITE_TRANSCRIPTS=1 pytest tests/test_kafka_commands_page.py`.

Kafka's own tools work with our brokers, too. `-o kafka` prints the text of Kafka's tool.

## Tools

| tool | here |
|---|---|
"""
# The command or option that an answer begins with, and what follows.
_USE = re.compile(r"use ((?:trimaran |-)[^;:]*?)((?:[,;:] | for | with | which | of | to ).*)?")
# Flags that every tool has, answered once.
_COMMON = "bootstrap-server bootstrap-controller command-config command-property help version"


def page():
    scripts = sorted(SCRIPTS.split())
    lines = [f"| `{name}.sh` | {as_code(answer_for_tool(name, []))} |" for name in scripts]
    yield HEAD + "\n".join(lines) + "\n"
    yield "\n## Every tool\n\n| flag | here |\n|---|---|\n"
    yield "| `--bootstrap-server` | `-b HOST:PORT`, or the same |\n"
    yield "| `--bootstrap-controller` | `-B HOST:PORT`, or the same, of commands that ask controllers |\n"
    yield "| `--command-config` | the same; of older tools also `--consumer.config`, `--producer.config` |\n"
    yield "| `--command-property` | `-X KEY=VALUE` |\n"
    for noun in sorted(FLAGS):
        yield from section(noun)


def section(noun):
    names = sorted(f"`kafka-{name}.sh`" for name, tool in TOOLS.items() if tool.commands == noun)
    here = ELSEWHERE.get(noun, noun)
    own = set.union(*(found for words, found in OWN.items() if words[0] == here))
    flags = sorted(set(FLAGS[noun].split()) - set(_COMMON.split()))
    same = [f"`--{name}`" for name in flags if answer(noun, f"--{name}") is None]
    assert all(name.strip("`") in own for name in same)
    yield f"\n## {noun}\n\n"
    yield "".join(
        f"{line}\n" for line in wrapped([*names[:-1], f"{names[-1]}: here `trimaran {here}`"])
    )
    if same:
        yield "\nThe same:\n" + "".join(f"{line}\n" for line in wrapped(same))
    told = [(name, answer(noun, name)) for name in KAFKAS_COMMANDS.get(noun, "").split()]
    told += [(f"--{name}", answer(noun, f"--{name}")) for name in flags]
    rows = [f"| `{name}` | {as_code(use)} |\n" for name, use in told if use is not None]
    if rows:
        yield "\n| command or flag | here |\n|---|---|\n"
        yield from rows


def wrapped(words):
    return textwrap.wrap(
        f"{', '.join(words)}.", 110, break_on_hyphens=False, break_long_words=False
    )


def as_code(use):
    """Returns an answer with the command or option that it begins with as code."""
    found = _USE.fullmatch(use)
    text = use if found is None else f"`{found[1]}`{found[2] or ''}"
    return text.replace("|", "\\|")


def test_page_lists_every_tool_and_flag():
    text = "".join(page())
    if datadriven.REWRITE:
        PAGE.write_text(text)
    assert PAGE.read_text() == text
    for noun, flags in FLAGS.items():
        section_text = text.split(f"\n## {noun}\n")[1].split("\n## ")[0]
        missing = set(flags.split()) - set(_COMMON.split())
        assert {name for name in missing if f"`--{name}`" not in section_text} == set()
    assert all(f"`{name}.sh`" in text for name in SCRIPTS.split())
