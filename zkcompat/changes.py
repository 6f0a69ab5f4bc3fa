"""Which entities one or more deltas touched: all that the mirror keeps of pending work.

Deltas that arrive while ZooKeeper is slow are merged; the images say what became of the entities. Beyond a bound the
names are dropped and everything counts as touched, so memory is bounded however long ZooKeeper stays away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.sections.registry import EVERYTHING
from trimaran.zkcompat.sections.section import Section

# Names kept before a comparison of everything becomes the cheaper thing: at 10,000 a plan takes about 0.1 s.
TOUCHED_MAX = 10_000


@dataclass(slots=True)
class Changes:
    """Names by label of their section, in the order in which they were first touched."""

    touched: dict[str, dict[str, None]] = field(default_factory=dict)
    everything: bool = False

    def add(self, delta: MetadataDelta) -> None:
        """Merges what `delta` touched."""
        if self.everything:
            return
        for section in EVERYTHING:
            for name in section.touched(delta):
                self.touched.setdefault(section.label, {})[name] = None
        if sum(map(len, self.touched.values())) > TOUCHED_MAX:
            self.mark_everything()

    def mark_everything(self) -> None:
        """From now on names are not kept: the two images are compared entity by entity."""
        self.everything = True
        self.touched.clear()

    def names(self, section: Section, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        """The entities of a section that may differ between the images, each once."""
        if self.everything:
            return dict.fromkeys(section.differing(before, after))
        return self.touched.get(section.label, {})
