"""The observations of rules: decoded requests and responses, and the trace of all that was done."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.schema import Message
from trimaran.wire.text.as_json import as_json

# The newest observations of a rule that are kept. Counters count all.
OBSERVATIONS_MAX = 10_000
# The maximum total size of the frames of these observations.
OBSERVED_BYTES_MAX = 64 << 20
# The newest lines of the trace that are kept.
TRACE_LINES_MAX = 10_000
# The maximum number of items in a line of the trace.
_ITEMS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class FaultPeer:
    """The connection of a request. Connections are numbered from 1 in the order of their first request."""

    connection: int
    listener: str = ""
    broker: int = -1
    client_id: str = ""
    software: str = ""
    principal: str = ""


@dataclass(slots=True)
class Observation:
    """One request that a rule matched. `response` is None until the response has arrived, and if there is none."""

    rule: str
    peer: FaultPeer
    api: ApiKey
    version: int
    correlation_id: int
    request: Message
    items: tuple[dict[str, Any], ...] = ()
    done: str = ""
    response: Message | None = None
    frame_bytes: int = 0
    is_kept: bool = True

    @property
    def item_text(self) -> str:
        """Returns the items in words, a few at most: ` orders-0 orders-1`."""
        texts = [_item_text(item) for item in self.items[:_ITEMS_SHOWN]]
        more = len(self.items) - len(texts)
        shown = [text for text in texts if text] + ([f"and {more} more"] if more else [])
        return "".join(f" {text}" for text in shown)

    def as_json(self) -> dict[str, Any]:
        """Returns a value for `json.dumps`; secrets are hidden."""
        return {
            "rule": self.rule,
            "connection": self.peer.connection,
            "listener": self.peer.listener,
            "broker": self.peer.broker,
            "client_id": self.peer.client_id,
            "software": self.peer.software,
            "principal": self.peer.principal,
            "api": self.api.spelling,
            "version": self.version,
            "correlation_id": self.correlation_id,
            "done": self.done,
            "request": as_json(self.request, self.version),
            "response": None if self.response is None else as_json(self.response, self.version),
        }


def _item_text(item: dict[str, Any]) -> str:
    topic, partition = item.get("topic"), item.get("partition")
    if topic is not None and partition is not None:
        return f"{topic}-{partition}"
    named = (topic, item.get("group"), item.get("transactional_id"))
    return next((str(value) for value in named if value), "")


@dataclass(slots=True)
class RuleCounters:
    """How often a rule has matched, and how often it has done something."""

    matched: int = 0
    applied: int = 0


@dataclass(slots=True)
class ObservationLog:
    """The newest observations of one rule, bounded in number and bytes."""

    kept: deque[Observation] = field(default_factory=deque)
    frame_bytes: int = 0

    def add(self, observation: Observation) -> None:
        self.kept.append(observation)
        self.frame_bytes += observation.frame_bytes
        self._drop_oldest()

    def answered(self, observation: Observation, response: Message, frame_bytes: int) -> None:
        """Adds the response to an observation, which may have been dropped meanwhile."""
        observation.response = response
        if observation.is_kept:
            observation.frame_bytes += frame_bytes
            self.frame_bytes += frame_bytes
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        while len(self.kept) > OBSERVATIONS_MAX or (
            self.frame_bytes > OBSERVED_BYTES_MAX and len(self.kept) > 1
        ):
            oldest = self.kept.popleft()
            oldest.is_kept = False
            self.frame_bytes -= oldest.frame_bytes

    def clear(self) -> None:
        self.kept.clear()
        self.frame_bytes = 0


@dataclass(slots=True)
class FaultTrace:
    """The actions that were carried out, a line each: without times and ports, so that two runs can be compared."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=TRACE_LINES_MAX))
    count: int = 0

    def add(self, line: str) -> None:
        self.count += 1
        self.lines.append(f"{self.count} {line}")

    def __str__(self) -> str:
        lost = self.count - len(self.lines)
        return "\n".join([f"({lost} earlier lines are lost)"] * bool(lost) + list(self.lines))
