"""The writes of tools that are still to be handled, and the znodes that the mirror leaves alone until then. No I/O; the
clock is trio's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

import trio

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.transport.scheduling.events import Notifier
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.tool_writes import (
    ToolWrite,
    has_change_note,
    is_note,
    tool_write_of,
    topic_name,
    topic_write,
)

# The time between a tool's write of an entity and its note: two requests to ZooKeeper, on a busy machine.
NOTE_SECONDS = 2.0
# More than tools write while the quorum is unavailable for a while; above this number the next comparison repairs the
# tree.
WRITES_MAX = 100_000


K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class PendingToolRequests:
    """`open` are the writes to handle, in the order of their arrival; `notes` are notes to read."""

    open: dict[ToolWrite, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    # Recently written entities by time; `_spared` has the entities among them that differed from the image in a
    # comparison.
    _written: dict[str, float] = field(default_factory=dict)
    _spared: dict[str, None] = field(default_factory=dict)
    # Topics without a request: the mirror may delete their znodes.
    _dismissed: set[ToolWrite] = field(default_factory=set)
    # The write that is being handled, and whether another event about it arrived meanwhile.
    _current: ToolWrite | None = None
    _again: bool = False
    _added: Notifier = field(default_factory=Notifier)

    def on_watch_event(self, path: str) -> None:
        """Records that a znode was created, written or deleted."""
        if is_note(path):
            self._put(self.notes, path, None)
        elif has_change_note(path):
            self._forget_written()
            self._written.pop(path, None)  # the newest come last
            self._put(self._written, path, trio.current_time())
        elif (tool_write := tool_write_of(path)) is not None:
            self._dismissed.discard(tool_write)
            self.add(tool_write)

    def add(self, tool_write: ToolWrite) -> None:
        """Adds a write to handle."""
        self._again = self._again or tool_write == self._current
        self._put(self.open, tool_write, None)

    def begin(self, tool_write: ToolWrite) -> None:
        """Begins to handle a write: events about it from now on make it open again."""
        self._current, self._again = tool_write, False

    def _put(self, where: dict[K, V], key: K, value: V) -> None:
        if len(where) < WRITES_MAX:
            where[key] = value
            self._added.notify_all()

    def settle(self, tool_write: ToolWrite, *, ownerless: bool = False) -> None:
        """Ends the handling of a write. `ownerless`: its znodes belong to no entity and may still exist."""
        again = self._again and tool_write == self._current
        self._current, self._again = None, False
        if again:
            return
        self.open.pop(tool_write, None)
        if ownerless and tool_write.kind is RequestKind.TOPIC:
            self._dismissed.add(tool_write)
        else:
            self._dismissed.discard(tool_write)

    def spares(self, path: str, shown: MetadataImage) -> bool:
        """True if the mirror must leave alone a znode that differs from the image.

        A topic that the image does not have is handled before its znodes may be deleted, even without a watch event.
        """
        if (
            ToolWrite(RequestKind.CONFIG, path) in self.open
            or ToolWrite(RequestKind.ACL, path) in self.open
        ):
            return True
        self._forget_written()
        if path in self._written:
            self._spared[path] = None
            return True
        topic = topic_write(path)
        if topic is None or topic in self.open:
            return topic is not None
        if topic_name(topic) in shown.topics.by_name or topic in self._dismissed:
            return False
        self.add(topic)
        return True

    def take_unexplained(self) -> list[str]:
        """Returns the spared entities for which no note has arrived in time: they must be compared again."""
        self._forget_written()
        gone = [path for path in self._spared if path not in self._written]
        for path in gone:
            del self._spared[path]
        return gone

    def _forget_written(self) -> None:
        until = trio.current_time() - NOTE_SECONDS
        while self._written:
            oldest = next(iter(self._written))
            if self._written[oldest] > until:
                break
            del self._written[oldest]

    async def wait(self) -> None:
        """Returns when there is a write to handle, or a spared entity to take."""
        while not (self.open or self.notes):
            with trio.move_on_after(NOTE_SECONDS if self._spared else inf):
                await self._added.wait()
                continue
            return
