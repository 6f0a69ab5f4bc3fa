"""The next block of producer ids."""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import Znode
from trimaran.zkcompat.znodes.producer_id_block import ProducerIdBlock

NEXT = "next"


class ProducerIdSection(Section):
    """One entity, without data until the first block is allocated."""

    label = "ProducerId"

    def names(self, image: MetadataImage) -> Iterable[str]:
        return (NEXT,)

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        changed = delta.producer_ids.next_producer_id != delta.image.producer_ids.next_producer_id
        return (NEXT,) if changed else ()

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        return (NEXT,) if before.producer_ids != after.producer_ids else ()

    def singles(self, name: str) -> tuple[str, ...]:
        return (ProducerIdBlock.PATH,)

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        next_id = image.producer_ids.next_producer_id
        data = ProducerIdBlock(next_id).encode() if next_id >= 0 else None
        yield ProducerIdBlock.PATH, Znode(data)
