"""The naive twin of the checker, which examines the whole state of every node after every event. It is twenty times
slower, so a test runs it for a few seeds, also with planted bugs: it must find nothing earlier than the checker does.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from tests.simulation.checker import Checker
from tests.simulation.snapshots import Damaged, decode
from tests.simulation.storage import chain
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.raft.roles import Role

if TYPE_CHECKING:
    from tests.simulation.node import SimNode
    from tests.simulation.world import World


def fingerprint(image: MetadataImage) -> int:
    return zlib.crc32("\n".join(sorted(map(repr, image_to_records(image)))).encode())


class Everything(Checker):
    def __init__(self) -> None:
        super().__init__()
        self.images: dict[int, int] = {}

    def saw_role(self, node: SimNode, role: Role, now: float) -> None:
        """Checks the role as if none had been seen before."""
        self.seen.pop(node.id, None)
        self.watched.pop(node.id, None)
        super().saw_role(node, role, now)

    def look(self, world: World) -> None:
        for node in world.nodes.values():
            self._look_at_log(node)
            self._look_at_snapshots(node)
            if not node.alive:
                continue
            self.saw_role(node, node.raft.role, world.now)
            if self.committed.get(node.applied, node.state) != node.state:
                self.fail("R8", node.id, "has another state at", node.applied)
            if node.metadata is not None and world.metadata is not None:
                self._look_at_image(node, node.metadata.loader.image)
                world.metadata.cluster.check_all(node.metadata.loader.image)

    def _look_at_log(self, node: SimNode) -> None:
        """Checks R4 and R8 batch by batch, against everything that was ever appended and committed."""
        log = node.log
        before, end = log.start_chain, log.start_offset
        known = self.known.get(node.id, 0)
        for entry in log.entries:
            if entry.base != end or entry.chain != chain(before, entry.epoch, entry.payload):
                self.fail("R4", node.id, "has", entry, "behind", end)
            if self.chains.get((entry.next, entry.epoch)) != entry.chain:
                self.fail("R4", node.id, "has another", entry)
            if entry.next <= known and self.committed.get(entry.next, entry.chain) != entry.chain:
                self.fail("R8", node.id, "has other data below", entry.next)
            before, end = entry.chain, entry.next

    def _look_at_snapshots(self, node: SimNode) -> None:
        for snapshot_id, data in node.log.snapshot_data.items():
            if not data or snapshot_id in node.log.rotten:
                continue
            try:
                state = decode(data).state
            except Damaged:
                self.fail("R9", node.id, "has a damaged snapshot", snapshot_id)
            if self.committed.get(snapshot_id.offset) != state:
                self.fail("R9 snapshot of", node.id, "at", snapshot_id, "is not committed")

    def _look_at_image(self, node: SimNode, image: MetadataImage) -> None:
        """Checks C1 with the whole content of the image."""
        offset, found = image.provenance.offset, fingerprint(image)
        if self.images.setdefault(offset, found) != found:
            self.fail("C1", node.id, "has another image at", offset)
