"""The newest image and leader for its readers: a publisher of the metadata loader that keeps no queue.

A slow reader gets the newest image and the merged names of all entities touched since it last took one
(`PendingChanges`, bounded). A short history of images lets `verify` find the image at the offset that the mirror
published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import trio

from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, MetadataImage
from trimaran.wire.identity import NO_OFFSET, NO_TIMESTAMP, Address, Offset
from trimaran.wire.transport.scheduling.events import Notifier
from trimaran.zkcompat.sections.registry import EVERYTHING
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.claim import QuorumLeader

# The most names kept; beyond it a comparison of everything is cheaper. At 10,000 a plan takes about 0.1 s.
TOUCHED_MAX = 10_000


@dataclass(slots=True)
class PendingChanges:
    """The touched entities: their names by the label of the section, in the order of the first change."""

    touched: dict[str, dict[str, None]] = field(default_factory=dict)
    everything: bool = False

    def add(self, delta: MetadataDelta) -> None:
        """Merges the entities that `delta` touched."""
        if self.everything:
            return
        for section in EVERYTHING:
            for name in section.touched(delta):
                self.touched.setdefault(section.label, {})[name] = None
        if sum(map(len, self.touched.values())) > TOUCHED_MAX:
            self.mark_everything()

    def mark_everything(self) -> None:
        """Drops the names: the two images are compared entity by entity."""
        self.everything = True
        self.touched.clear()

    def names(self, section: Section, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        """Returns the entities of a section that may differ between the images, each once."""
        if self.everything:
            return dict.fromkeys(section.differing(before, after))
        return self.touched.get(section.label, {})


# Images share unchanged parts, so a history costs little memory; 256 images span the idle batches of two minutes.
HISTORY_MAX = 256
# The initial interval between the commit times kept for batches that have left the history, and their maximum number:
# they span an hour, then every other one is dropped and the interval doubled.
SAMPLE_MS = 1000
SAMPLES_MAX = 3600


@dataclass(slots=True)
class CommitTimes:
    """The commit times of some offsets; older ones are kept at larger intervals."""

    _offsets: list[Offset] = field(default_factory=list)
    _times_ms: list[int] = field(default_factory=list)
    _apart_ms: int = SAMPLE_MS

    def add(self, offset: Offset, committed_ms: int) -> None:
        if self._times_ms and committed_ms < self._times_ms[-1] + self._apart_ms:
            return
        self._offsets.append(offset)
        self._times_ms.append(committed_ms)
        if len(self._offsets) > SAMPLES_MAX:
            del self._offsets[1::2], self._times_ms[1::2]
            self._apart_ms *= 2

    def first_after(self, offset: Offset) -> int | None:
        """Returns the time of the first kept offset after `offset`."""
        index = bisect_right(self._offsets, offset)
        return self._times_ms[index] if index < len(self._offsets) else None


@dataclass(slots=True)
class ImageFeed:
    """`ready` turns true when the image has caught up with the quorum's high watermark for the first time.

    `heard_ms` is the time of the quorum's last commit, no-op records included, -1 before the first. `leader_address`
    returns the leader's address, None while it is not known. `kept` is the newest image up to the offset `kept_until`.
    """

    image: MetadataImage = EMPTY
    leader: QuorumLeader | None = None
    ready: bool = False
    history: deque[MetadataImage] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))
    heard_ms: int = NO_TIMESTAMP
    leader_address: Callable[[], Address | None] = lambda: None
    kept_until: Offset = NO_OFFSET
    kept: MetadataImage = EMPTY
    _times: CommitTimes = field(default_factory=CommitTimes)
    _changes: PendingChanges = field(default_factory=PendingChanges)
    _changed: Notifier = field(default_factory=Notifier)

    def publish(self, delta: MetadataDelta, image: MetadataImage, manifest: object) -> None:
        """Called by the loader for every committed batch and every snapshot."""
        del manifest
        self._changes.add(delta)
        self.image = image
        self.history.append(image)
        self._times.add(image.provenance.offset, image.provenance.timestamp_ms)
        self.heard_ms = now_ms()
        if image.provenance.offset <= self.kept_until:
            self.kept = image
        self._wake()

    def lead_by(self, leader: QuorumLeader | None) -> None:
        """Sets the leader. A quorum without a known leader keeps its last one here, as `/controller` does."""
        if leader is not None and leader != self.leader:
            self.leader = leader
            self._wake()

    def caught_up(self) -> None:
        if not self.ready:
            self.ready = True
            self._wake()

    def take(self) -> tuple[MetadataImage, PendingChanges]:
        """Returns the newest image and the entities touched since the last call."""
        changes, self._changes = self._changes, PendingChanges()
        return self.image, changes

    def image_at(self, offset: Offset) -> MetadataImage | None:
        """Returns the image of the batch that ends at `offset`, if it is still in the history."""
        return next((i for i in reversed(self.history) if i.provenance.offset == offset), None)

    def silent_seconds(self) -> float:
        """Returns the time since the last commit; infinity before the first."""
        return float("inf") if self.heard_ms < 0 else max(0, now_ms() - self.heard_ms) / 1000

    def lag_ms(self, published_offset: Offset) -> int:
        """Returns the age of the oldest batch that a tree of that offset does not show."""
        missing = [i.provenance for i in self.history if i.provenance.offset > published_offset]
        if not missing:
            return 0
        since = missing[0].timestamp_ms
        if len(missing) == len(self.history):
            since = min(since, self._times.first_after(published_offset) or since)
        return max(0, now_ms() - since)

    async def wait_for(self, wanted: Callable[[ImageFeed], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not wanted(self):
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.notify_all()
