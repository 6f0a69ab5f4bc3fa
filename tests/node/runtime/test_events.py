"""Named lines of the log: docs/events.md lists them (`REWRITE_TRANSCRIPTS=1` writes it), each is written somewhere, and
whoever writes one gives just its fields.
"""

import ast
import io
import json
import logging
from pathlib import Path

import pytest

from node.runtime import events
from node.runtime.events import EVENTS
from tests import datadriven
from trimaran.logs import JsonFormatter, TextFormatter

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "events.md"
ROOMS = ("node", "quorum", "broker", "zkcompat", "trimaran")
HEAD = """# Events

Lines of a node's log that scripts may wait for and alerts may count.
Their names, levels and fields stay; their words may change, and there are other lines for people.
This page is written from `node/runtime/events.py`:
`REWRITE_TRANSCRIPTS=1 pytest tests/node/runtime/test_events.py`.

A log that is no terminal is JSON, an object a line (`trimaran.log.format`):

```
{"ts": "2026-11-23T16:00:00.123", "level": "INFO", "logger": "broker.process.lifecycle",
 "message": "broker 11 is ready", "node_id": 11, "event": "broker.ready", "fields": {"broker": 11}}
```

Lines without a name have no `event`. A traceback is in `error`.

| event | level | fields | when |
|---|---|---|---|
"""
BY_NAME = {name: one for name, one in vars(events).items() if isinstance(one, events.Event)}


def rows():
    for one in sorted(EVENTS, key=lambda one: one.name):
        fields = ", ".join(f"`{field}`" for field in one.fields) or "–"
        yield f"| `{one.name}` | {logging.getLevelName(one.level)} | {fields} | {one.meaning} |"


def test_the_page_lists_all():
    page = HEAD + "\n".join(rows()) + "\n"
    if datadriven.REWRITE:
        PAGE.write_text(page)
    assert PAGE.read_text() == page
    assert len({one.name for one in EVENTS}) == len(EVENTS)


def written():
    """Which event is logged with which fields, wherever it is."""
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text()
            if "node.runtime" not in text or "events" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    name = ast.unparse(node.func.value).rpartition(".")[2]
                    if node.func.attr == "log" and name in BY_NAME:
                        yield name, sorted(keyword.arg for keyword in node.keywords)


def test_each_is_written_with_its_fields():
    found = list(written())
    assert {name for name, _ in found} == set(BY_NAME)
    for name, fields in found:
        assert fields == sorted(BY_NAME[name].fields), name


@pytest.fixture
def lines():
    """A logger of its own, and what it wrote by each formatter."""
    logger = logging.getLogger("tests.events")
    streams = []
    handlers = []
    for formatter in (TextFormatter(), JsonFormatter(7)):
        streams.append(io.StringIO())
        handlers.append(logging.StreamHandler(streams[-1]))
        handlers[-1].setFormatter(formatter)
        logger.addHandler(handlers[-1])
    logger.setLevel(logging.INFO)
    yield logger, lambda: [stream.getvalue() for stream in streams]
    for handler in handlers:
        logger.removeHandler(handler)


def test_json_has_name_and_fields(lines):
    logger, read = lines
    events.BROKER_REGISTERED.log(logger, broker=7, epoch=12)
    logger.info("for people")
    text, objects = read()
    assert "registered as broker 7, epoch 12\n" in text
    named, other = map(json.loads, objects.splitlines())
    assert named["event"] == "broker.registered"
    assert named["fields"] == {"broker": 7, "epoch": 12}
    assert named["message"] == "registered as broker 7, epoch 12"
    assert "event" not in other


def test_what_is_no_json_is_words(lines):
    logger, read = lines
    events.LOG_DIRECTORY_OFFLINE.log(logger, directory=Path("/d"), error=OSError(5, "broken"))
    (line,) = read()[1].splitlines()
    assert json.loads(line)["fields"] == {"directory": "/d", "error": "[Errno 5] broken"}


def test_a_line_without_fields_is_its_text(lines):
    logger, written_lines = lines
    events.BROKER_LEFT_WITHOUT_LEAVE.log(logger)
    text, _ = written_lines()
    assert events.BROKER_LEFT_WITHOUT_LEAVE.text in text
