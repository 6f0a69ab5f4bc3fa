"""The log lines of a node on stderr, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from tests.broker.groups.driver import Driver
from tests.quorum.config_of import config_of
from trimaran.running.log_lines import MESSAGE_CHARACTERS_MAX, TRACEBACK_CHARACTERS_MAX, set_up

FORGED = "2030-01-01 00:00:00,000 ERROR trimaran.broker.process.server: the disk is gone"
# Characters that some reader treats as the end of a line, and that a terminal obeys.
BREAKS = [
    "\n",
    "\r",
    "\r\n",
    "\v",
    "\f",
    "\x1c",
    "\x85",
    "\u2028",
    "\u2029",
    "\x1b[2K\x1b[1G",
    "\b",
]
BEGINNING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ [\w.]+: ")


@pytest.fixture
def written(monkeypatch):
    """Sets up the log of a node, and returns a function that returns what was written since."""
    root, level, added = logging.getLogger(), logging.getLogger().level, []

    def begin(form):
        stderr = io.StringIO()
        monkeypatch.setattr("sys.stderr", stderr)
        # the handler of the test runner would be closed
        others, root.handlers = root.handlers, []
        set_up(config_of(**{"trimaran.log.format": form, "trimaran.log.level": "INFO"}))
        added.extend(root.handlers)
        root.handlers += others
        return stderr.getvalue

    yield begin
    for handler in added:
        root.removeHandler(handler)
    root.setLevel(level)


def raise_with(text):
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("broker").exception("failed")


@pytest.mark.parametrize("line_break", BREAKS)
def test_group_id_cannot_forge_a_line(written, line_break):
    lines = written("text")
    driver = Driver()
    group = f"g{line_break}{FORGED}"
    driver.join("1", group=group, client=group, version=3)
    driver.advance(120)
    out = lines()
    assert out.count("\n") > 2, "the group was told of"
    assert all(BEGINNING.match(line) for line in out.splitlines())
    assert not any(line.startswith(FORGED) for line in out.splitlines())
    assert FORGED in out, "and can still be read"
    assert all(character.isprintable() or character == "\n" for character in out)


@pytest.mark.parametrize("line_break", BREAKS)
def test_error_cannot_forge_a_line(written, line_break):
    lines = written("text")
    raise_with(f"x{line_break}{FORGED}")
    first, *rest = lines().splitlines()
    assert BEGINNING.match(first)
    assert rest
    assert all(line.startswith("    ") for line in rest)


def test_traceback_keeps_its_lines(written):
    lines = written("text")
    raise_with("why")
    first, *rest = lines().splitlines()
    assert first.endswith("ERROR broker: failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[1].startswith("      File ")
    assert rest[-1] == "    ValueError: why"


def test_letters_of_all_scripts_are_kept(written):
    lines = written("text")
    logging.getLogger("broker").info("group %s", "заказы-訂單-ünï 100 %")
    assert lines().endswith("group заказы-訂單-ünï 100 %\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_length_of_line_is_bounded(written, form):
    lines = written(form)
    logging.getLogger("broker").info("group %s", "x" * 1_000_000)
    raise_with("y" * 1_000_000)
    said = lines()
    assert len(said) < MESSAGE_CHARACTERS_MAX + TRACEBACK_CHARACTERS_MAX + 1_000
    assert said.count("more characters") == 2


@pytest.mark.parametrize("line_break", BREAKS)
def test_json_is_one_object_per_line(written, line_break):
    lines = written("json")
    logging.getLogger("broker").info('a "%s"%sb', "x", line_break)
    raise_with(line_break)
    event, failure = (json.loads(line) for line in lines().splitlines())
    assert event["message"] == f'a "x"{line_break}b'
    assert event["node_id"] == 1
    assert failure["error"].startswith("Traceback (most recent call last):\n")
