"""What to write: `(delta, image) → operations`. Pure.

Source: Kafka 3.9's `KRaftMigrationZkWriter.handleDelta`. We go further: live brokers come first; only what differs is
written (Kafka wrote the state of every touched partition); a topic that loses its last config keeps an empty one, as
in ZooKeeper mode; a replaced topic is deleted before the new one is made.
"""

from __future__ import annotations

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.changes import Changes
from trimaran.zkcompat.operations import Operation
from trimaran.zkcompat.sections.registry import WITHOUT_SECRETS, Sections


def plan(
    delta: MetadataDelta, image: MetadataImage, sections: Sections = WITHOUT_SECRETS
) -> list[Operation]:
    """The operations that lead from the tree of `delta`'s image to the tree of `image`."""
    changes = Changes()
    changes.add(delta)
    return plan_changes(delta.image, image, changes, sections)


def plan_changes(
    before: MetadataImage,
    after: MetadataImage,
    changes: Changes,
    sections: Sections = WITHOUT_SECRETS,
) -> list[Operation]:
    """The same over several deltas at once: `changes` names what may differ between the two images."""
    return [
        operation
        for section in sections
        for name in changes.names(section, before, after)
        for operation in section.plan(name, before, after)
    ]
