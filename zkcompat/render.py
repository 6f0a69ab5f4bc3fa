"""Image → the whole tree that ZooKeeper should show for it. Pure; parents come before their children.

Source: what Kafka's ZooKeeper mode kept (`ZkData.scala`), filled from a KRaft image.
"""

from __future__ import annotations

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.sections.registry import Sections, sections_of
from trimaran.zkcompat.tree import Znode


def render(
    image: MetadataImage, cluster_id: str, sections: Sections | None = None
) -> dict[str, Znode]:
    """Every znode of the mirror except the claim's three; `sections` are those without secrets if not given."""
    chosen = sections_of(cluster_id) if sections is None else sections
    return {
        path: znode
        for section in chosen
        for name in section.names(image)
        for path, znode in section.znodes(name, image)
    }
