"""Named lines of the log: docs/events.md lists them (`REWRITE_TRANSCRIPTS=1` writes it), each is logged somewhere, and
each call passes exactly its fields.
"""

import ast
import functools
import importlib
import io
import json
import logging
import re
from pathlib import Path

import pytest

from tests import datadriven
from trimaran.broker import events as broker_events
from trimaran.running.log_lines import JsonFormatter, TextFormatter
from trimaran.wire.text.events import Event

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "events.md"
ROOMS = ("wire", "log", "node", "quorum", "broker", "zkcompat", "trimaran")
HEAD = """# Events

This page lists the lines of a node's log that scripts may wait for and alerts may count.
Their names, levels and fields are stable; their texts may change.
Every line of level INFO and above has a name. Lines of level DEBUG have none.
`kafka.authorizer.logger` has Apache Kafka's format, without names.
Every other logger has the name of its module. In earlier versions `trimaran.broker.…` was `broker.…`.
This page is generated from `events.py` of each folder: `REWRITE_TRANSCRIPTS=1 pytest tests/test_events.py`.

Unless the log is a terminal, it is JSON with one object per line (`trimaran.log.format`):

```
{"ts": "2026-11-23T16:00:00.123", "level": "INFO", "logger": "trimaran.broker.process.lifecycle",
 "message": "broker 11 is ready", "node_id": 11, "event": "broker.ready", "fields": {"broker": 11}}
```

Lines of level DEBUG have no `event`. Tracebacks are in `error`.
A line that a peer can cause repeatedly is written once in ten seconds; `left_out` counts the omitted ones.

| event | level | fields | when |
|---|---|---|---|
"""
# The events of `log` are declared with those of `wire`.
MODULES = {
    "wire": ["wire.text"],
    "node": ["node"],
    "quorum": ["quorum"],
    "broker": ["broker"],
    "zkcompat": ["zkcompat"],
    "trimaran": ["running", "metrics", "console", "fault_control"],
}
BY_ROOM = {
    room: {
        name: event
        for folder in folders
        for name, event in vars(importlib.import_module(f"trimaran.{folder}.events")).items()
        if isinstance(event, Event)
    }
    for room, folders in MODULES.items()
}
EVENTS = [event for found in BY_ROOM.values() for event in found.values()]
# The authorizer's lines have Apache Kafka's format; the two others write formatted events.
WITHOUT_NAMES = {
    "quorum/serving/audit.py",
    "wire/text/events.py",
    "wire/transport/metrics/limited_log.py",
}
CALL = re.compile(r"\.(info|warning|error|exception|critical|log)\(")
LEVELS = {"info", "warning", "error", "exception", "critical", "log"}


def rows():
    for event in sorted(EVENTS, key=lambda event: event.name):
        fields = ", ".join(f"`{field}`" for field in event.fields) or "–"
        yield f"| `{event.name}` | {logging.getLevelName(event.level)} | {fields} | {event.meaning} |"


def test_page_lists_all():
    page = HEAD + "\n".join(rows()) + "\n"
    if datadriven.REWRITE:
        PAGE.write_text(page)
    assert PAGE.read_text() == page
    assert len({event.name for event in EVENTS}) == len(EVENTS)


@functools.cache
def logged():
    """Yields each call of a logger's method from level INFO on: its place, the call, and the method's owner."""
    found = []
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        text = path.read_text()
        if not CALL.search(text):  # parsing all files takes ten seconds
            continue
        for node in ast.walk(ast.parse(text)):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in LEVELS:
                found.append((path.relative_to(ROOT), node, ast.unparse(called.value)))
    return found


def written():
    """Returns the logged events with their rooms and fields."""
    for path, call, of in logged():
        room = "wire" if path.parts[0] == "log" else path.parts[0]
        words = {keyword.arg for keyword in call.keywords} - {"exc_info", "of"}
        named = of if of.startswith("events.") else ast.unparse(call.args[0]) if call.args else ""
        if named.startswith("events.") and named.removeprefix("events.") in BY_ROOM[room]:
            yield room, named.removeprefix("events."), words


def test_each_event_is_logged_with_its_fields():
    found = list(written())
    indirect = {("zkcompat", "MIRROR_INTERRUPTED"), ("zkcompat", "MIRROR_WRONG_CLUSTER")}
    known = {(room, name) for room, events in BY_ROOM.items() for name in events}
    assert {(room, name) for room, name, _ in found} == known - indirect
    for room, name, fields in found:
        assert fields == set(BY_ROOM[room][name].fields), name


LOGGERS = {"log", "_log", "logger", "_logger", "audit", "limited", "limited_log"}


def test_every_line_from_info_on_has_a_name():
    """A script cannot wait for a line of `log.info("…")`: it must be an event, or have level DEBUG."""
    nameless = [
        f"{path}:{call.lineno}"
        for path, call, of in logged()
        if of.rpartition(".")[2] in LOGGERS
        and str(path) not in WITHOUT_NAMES
        and not ast.unparse(call.args[0]).startswith("events.")
    ]
    assert nameless == []


def test_names_have_one_form():
    form = re.compile(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*")
    assert [event.name for event in EVENTS if not form.fullmatch(event.name)] == []


@pytest.fixture
def lines():
    """Returns a logger of its own, and its output by each formatter."""
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
    broker_events.BROKER_REGISTERED.log(logger, broker=7, epoch=12)
    logger.info("for people")
    text, objects = read()
    assert "registered as broker 7, epoch 12\n" in text
    named, other = map(json.loads, objects.splitlines())
    assert named["event"] == "broker.registered"
    assert named["fields"] == {"broker": 7, "epoch": 12}
    assert named["message"] == "registered as broker 7, epoch 12"
    assert "event" not in other


def test_non_json_values_become_text(lines):
    logger, read = lines
    broker_events.LOG_DIRECTORY_OFFLINE.log(
        logger, directory=Path("/d"), error=OSError(5, "broken")
    )
    (line,) = read()[1].splitlines()
    assert json.loads(line)["fields"] == {"directory": "/d", "error": "[Errno 5] broken"}


def test_line_without_fields_is_its_text(lines):
    logger, written_lines = lines
    broker_events.BROKER_LEFT_WITHOUT_LEAVE.log(logger)
    text, objects = written_lines()
    named = json.loads(objects)
    assert (named["event"], named["fields"]) == ("broker.stopped_without_leave", {})
    assert broker_events.BROKER_LEFT_WITHOUT_LEAVE.text in text
