"""What is still to be looked at, and what the mirror leaves alone until then. No I/O; the clock is trio's."""

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

# Between a tool's write of an entity and its note: two requests to ZooKeeper, on a busy machine.
NOTE_SECONDS = 2.0
# More than tools write while the quorum is away for a while; beyond it the next comparison mends the tree.
WRITES_MAX = 100_000


K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class PendingRequests:
    """`open` are subjects to look at, in the order in which they were heard of; `notes` are notes to read."""

    open: dict[ToolWrite, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    # Entities that were written a moment ago, by when; `_spared` are those that a comparison found to differ then.
    _written: dict[str, float] = field(default_factory=dict)
    _spared: dict[str, None] = field(default_factory=dict)
    # Topics that nobody asked for: the mirror may take their znodes away.
    _dismissed: set[ToolWrite] = field(default_factory=set)
    # What is looked at now, and whether it was heard of again meanwhile.
    _current: ToolWrite | None = None
    _again: bool = False
    _added: Notifier = field(default_factory=Notifier)

    def on_watch_event(self, path: str) -> None:
        """A znode was made, written or deleted."""
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
        """There is something to look at."""
        self._again = self._again or tool_write == self._current
        self._put(self.open, tool_write, None)

    def begin(self, tool_write: ToolWrite) -> None:
        """It is looked at: what is heard of it from now on is to be looked at after that."""
        self._current, self._again = tool_write, False

    def _put(self, where: dict[K, V], key: K, value: V) -> None:
        if len(where) < WRITES_MAX:
            where[key] = value
            self._added.notify_all()

    def settle(self, tool_write: ToolWrite, *, ownerless: bool = False) -> None:
        """It was looked at. `ownerless`: its znodes are nobody's, and may still be there."""
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
        """Whether the mirror must leave a znode alone that is not as the image says.

        A topic that the image does not have is looked at before it may go, heard of or not.
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
        """Entities that were spared, and of which no note has told by now: to be compared again."""
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
        """Returns when there is something to look at, or to take."""
        while not (self.open or self.notes):
            with trio.move_on_after(NOTE_SECONDS if self._spared else inf):
                await self._added.wait()
                continue
            return
