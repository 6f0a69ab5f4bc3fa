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
    kind = config["trimaran.log.format"]
    as_text = kind == "text" or (kind == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(TEXT) if as_text else JsonFormatter(config["node.id"]))
    logging.basicConfig(level=config["trimaran.log.level"], handlers=[handler], force=True)
