"""Named log lines, for scripts that wait for them and alerts that count them.

Names and fields are stable and listed in docs/events.md; the wording of a line may change. In a JSON log they are
`event` and `fields`; lines without a name are for operators.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

_FIELD = re.compile(r"%\((\w+)\)")


@dataclass(frozen=True, slots=True)
class Event:
    """A named log line. `text` has its fields as `%(name)s`; `meaning` is printed in the manual."""

    name: str
    level: int
    text: str
    meaning: str

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(_FIELD.findall(self.text))

    def log(
        self,
        logger: logging.Logger,
        *,
        exc_info: BaseException | bool | None = None,
        **fields: object,
    ) -> None:
        """Writes the line; `fields` must be complete. `exc_info` adds a traceback, as in `logging`."""
        arguments = (fields,) if fields else ()  # `%` accepts no empty mapping
        logger.log(
            self.level,
            self.text,
            *arguments,
            exc_info=exc_info,
            extra={"named_event": self},
            stacklevel=2,
        )


def event_of(record: logging.LogRecord) -> Event | None:
    """Returns the event of a record that `Event.log` wrote."""
    return getattr(record, "named_event", None)


# The events of connections and of logs on disk. Each higher package has its own `events.py`.
_W, _E = logging.WARNING, logging.ERROR
ADDRESS_FULL = Event(
    "address.full",
    _W,
    "%(address)s has %(connections)d connections, the most allowed",
    "max.connections.per.ip. The new one is closed.",
)
ADDRESS_TOO_FAST = Event(
    "address.too_fast",
    _W,
    "%(address)s connects faster than its quota allows",
    "Its connections wait.",
)
CONNECTION_BAD_FRAME = Event(
    "connection.bad_frame",
    _W,
    "%(connection)s closes: %(error)s",
    "A peer sent bytes that are not a frame of Kafka's protocol.",
)
CONNECTION_BAD_REQUEST = Event(
    "connection.bad_request",
    _W,
    "%(connection)s closes: %(error)a",
    "A peer sent bytes that are not a request of Kafka's protocol.",
)
CONNECTION_CALLBACK_FAILED = Event(
    "connection.callback_failed",
    _E,
    "a callback for a closed connection failed",
    "Internal error; please report it.",
)
CONNECTION_CLOSED = Event(
    "connection.closed",
    _W,
    "%(connection)s closes: %(error)a",
    "This node ends a connection, for this reason.",
)
CONNECTION_EXCESS = Event(
    "connection.excess",
    _W,
    "%(connection)s closes: there are too many connections",
    "max.connections was lowered. The most idle connections are closed.",
)
CONNECTION_FAILED = Event(
    "connection.failed",
    _E,
    "%(connection)s failed",
    "Internal error; please report it. Other connections continue.",
)
CONNECTION_STALLED = Event(
    "connection.stalled",
    _W,
    "%(connection)s closes: it holds memory that others wait for",
    "Its peer does not read responses.",
)
CONNECTION_TLS_FAILED = Event(
    "connection.tls_failed",
    _W,
    "%(connection)s closes: TLS handshake failed: %(error)s",
    "A client does not use TLS, or its certificate is not accepted.",
)
CONNECTION_TO_NODE_DROPPED = Event(
    "connection.to_node_dropped",
    _W,
    "connection to %(node)s dropped: %(error)a",
    "It is opened again.",
)
FSYNC_BY_THREADS = Event(
    "fsync.by_threads",
    logging.INFO,
    "no asynchronous fdatasync here, so threads sync: %(error)s",
    "Appends that wait for fsync take 0.2 ms longer. EAGAIN: fs.aio-max-nr is used up.",
)
LISTENER_CANNOT_ACCEPT = Event(
    "listener.cannot_accept",
    _W,
    "cannot accept connections: %(error)s",
    "The machine has no descriptors or memory left. Accepting is retried.",
)
LISTENER_FULL = Event(
    "listener.full",
    _W,
    "%(connections)d connections on %(listener)s, the most allowed",
    "New connections wait until one closes.",
)
LOG_BEGINS_ANEW = Event(
    "log.begins_anew",
    _W,
    "%(directory)s ends at %(end_offset)d, below its start: it is emptied, and begins at %(start_offset)d",
    "After a crash the log ends below its start offset. Replicas fetch the rest.",
)
LOG_SEGMENT_DROPPED = Event(
    "log.segment_dropped",
    _W,
    "%(file)s is removed: the segments before it were cut off",
    "It cannot be read without the segments before it.",
)
LOG_TRUNCATED = Event(
    "log.truncated",
    _W,
    "%(segment)s: %(bytes)d bytes are cut off from position %(position)d, offset %(offset)d, which is "
    "above the recovery point; %(whole)d whole batches are among them",
    "A crash or a bad block causes it. The partition is recovered.",
)
LOG_DIRECTORY_FILE_DAMAGED = Event(
    "log_directory.file_damaged",
    _W,
    "ignored, and rebuilt: %(error)s",
    "A small file is damaged or unreadable. It is rebuilt from the logs.",
)
LOG_DIRECTORY_NOT_CLEAN = Event(
    "log_directory.not_clean",
    _W,
    "%(directory)s: %(logs)d logs are not checked since the last process died, so this stop is not a clean one",
    "They are checked at the next start.",
)
LOG_DIRECTORY_NOT_REMOVED = Event(
    "log_directory.not_removed",
    _W,
    "%(directory)s of a deleted partition is not removed: %(error)s; remove it by hand",
    "Something in it cannot be removed. The log directory is in service.",
)
LOGIN_CALLBACK_FAILED = Event(
    "login.callback_failed",
    _E,
    "the callback of PLAIN failed with %(error)s",
    "Logins are refused.",
)
REQUEST_FAILED = Event(
    "request.failed",
    _E,
    "%(request)s failed",
    "Internal error; please report it. The client gets UNKNOWN_SERVER_ERROR.",
)
