"""Where a node's log lines go: stderr, as text for people or JSON for machines (`trimaran.log.level`, `trimaran.log.format`)."""

from __future__ import annotations

import json
import logging
import sys

from node.config.server import ServerConfig

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """One object a line: ts (UTC, ISO 8601), level, logger, event, node_id, and error where there is one."""

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
            "node_id": self._node_id,
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up(config: ServerConfig) -> None:
    """Sends the lines of this process to stderr; `auto` is text on a terminal and JSON elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    is_json = writes_json(config)
    handler.setFormatter(JsonFormatter(config["node.id"]) if is_json else logging.Formatter(TEXT))
    logging.basicConfig(level=config["trimaran.log.level"], handlers=[handler], force=True)
    logging.captureWarnings(is_json)  # Python's own would be plain lines between the objects


def writes_json(config: ServerConfig) -> bool:
    """Then nothing but objects, a line each, may be written to stderr."""
    kind = config["trimaran.log.format"]
    return kind == "json" or (kind == "auto" and not sys.stderr.isatty())


def set_up_mirror() -> None:
    """For the mirror, which has no properties file of a node: text to stderr, of our own rooms only from INFO on."""
    logging.basicConfig(level=logging.WARNING, format=TEXT, force=True)
    logging.getLogger("zkcompat").setLevel(logging.INFO)
