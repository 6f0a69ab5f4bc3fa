"""Log lines of a node: to stderr, as text for humans or JSON for machines (`trimaran.log.level`,
`trimaran.log.format`).

A message is one line, whatever a client has put into it. The lines of a traceback are kept and indented, so that none
looks like a message of its own.
"""

from __future__ import annotations

import json
import logging
import sys

from trimaran.node.config.server import ServerConfig
from trimaran.node.text.escaping import bounded, one_line
from trimaran.wire.identity import NodeId
from trimaran.wire.text.events import event_of

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Clients can send strings of 32 KiB, and lists of them; texts of trimaran itself have a few hundred characters.
MESSAGE_CHARACTERS_MAX = 8 << 10
# The limit also holds for exception groups with their members; the text of an error may hold a client's data.
TRACEBACK_CHARACTERS_MAX = 64 << 10
_INDENT = "    "


class TextFormatter(logging.Formatter):
    """Formats a message as one line, followed by the lines of its traceback, indented."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = one_line(bounded(record.message, MESSAGE_CHARACTERS_MAX))
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        # A traceback that another handler's formatter has left in the record is not ours.
        record.exc_text = None
        text = super().format(record)
        record.exc_text = None
        return text

    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 - logging's name
        text = bounded(super().formatException(ei), TRACEBACK_CHARACTERS_MAX)
        return "\n".join(_INDENT + one_line(line) for line in text.split("\n"))


class JsonFormatter(logging.Formatter):
    """Formats a message as one JSON object per line: ts (UTC, ISO 8601), level, logger, message, node_id; event and
    fields for a named event (`trimaran.wire.text.events`); error for an exception.
    """

    def __init__(self, node_id: NodeId) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "message": bounded(record.getMessage(), MESSAGE_CHARACTERS_MAX),
            "node_id": self._node_id,
        }
        if (event := event_of(record)) is not None:
            # The arguments of an event without fields are an empty tuple.
            found = record.args if isinstance(record.args, dict) else {}
            fields = {name: _plain(value) for name, value in found.items()}
            line |= {"event": event.name, "fields": fields}
        if record.exc_info:
            error = self.formatException(record.exc_info)
            line["error"] = bounded(error, TRACEBACK_CHARACTERS_MAX)
        return json.dumps(line)


def _plain(value: object) -> object:
    """Returns a value that JSON has; any other value becomes text."""
    if isinstance(value, bool | int | float) or value is None:
        return value
    return bounded(str(value), MESSAGE_CHARACTERS_MAX)


def set_up(config: ServerConfig) -> None:
    """Sends the log of this process to stderr; `auto` is text on a terminal and JSON elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    is_json = writes_json(config)
    handler.setFormatter(JsonFormatter(config["node.id"]) if is_json else TextFormatter())
    logging.basicConfig(level=config["trimaran.log.level"], handlers=[handler], force=True)
    # Otherwise Python would print warnings as plain lines between the objects.
    logging.captureWarnings(is_json)


def writes_json(config: ServerConfig) -> bool:
    """Returns whether stderr receives only JSON objects, one per line."""
    kind = config["trimaran.log.format"]
    return kind == "json" or (kind == "auto" and not sys.stderr.isatty())


def set_up_mirror() -> None:
    """Sets up the log of the mirror, which has no properties file of a node: text on stderr, from level INFO on."""
    _set_up_text("trimaran.zkcompat")


def set_up_console() -> None:
    """Sets up the log of the console in the same way as `set_up_mirror`."""
    _set_up_text("trimaran.console")


def _set_up_text(room: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(room).setLevel(logging.INFO)
