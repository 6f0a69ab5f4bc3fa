"""Which entities one or more deltas touched: all that the mirror keeps of pending work.

Deltas that arrive while ZooKeeper is slow are merged; the images say what became of the entities. Beyond a bound the
names are dropped and everything counts as touched, so memory is bounded however long ZooKeeper stays away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quorum.metadata.delta import MetadataDelta

# Names kept before a comparison of everything becomes the cheaper thing: at 10,000 a plan takes about 0.1 s.
TOUCHED_MAX = 10_000


@dataclass(slots=True)
class Changes:
    """Names are kept in the order in which they were first touched."""

    brokers: dict[int, None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)
    configs: dict[tuple[int, str], None] = field(default_factory=dict)
    everything: bool = False

    def add(self, delta: MetadataDelta) -> None:
        """Merges what `delta` touched."""
        if self.everything:
            return
        self.brokers.update(dict.fromkeys(delta.cluster.changed_brokers))
        self.topics.update(dict.fromkeys(delta.topics.touched_names()))
        self.configs.update(dict.fromkeys(delta.configs.changed))
        if len(self.brokers) + len(self.topics) + len(self.configs) > TOUCHED_MAX:
            self.mark_everything()

    def mark_everything(self) -> None:
        """From now on names are not kept: the two images are compared entity by entity."""
        self.everything = True
        self.brokers.clear()
        self.topics.clear()
        self.configs.clear()
