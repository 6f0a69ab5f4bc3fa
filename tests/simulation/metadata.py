"""The metadata above the log: real records through the real loader on every node.

In one kind of run the real controller handles requests of brokers and an operator (`controllers`, `brokers`,
`operator`). In the other kind the leader writes topics, configs and transactions of records (KIP-868) that take several
batches, so that leaders change in the middle of them. The published states are compared: by offset (C1, R9), with the
watermark (C2), and transaction by transaction (R14).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.brokers import BrokerMember
from tests.simulation.cluster_checker import ClusterChecker
from tests.simulation.controllers import ControllerMember
from tests.simulation.member import Member
from tests.simulation.storage import Entry
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.node import SimNode
    from tests.simulation.world import World


class Rules(NamedTuple):
    """The configuration of the controllers."""

    elr: bool
    min_isr: int
    unclean: bool

    @classmethod
    def draw(cls, prng: random.Random) -> Rules:
        return cls(prng.random() < 0.7, prng.choice((1, 2)), prng.random() < 0.2)


class Metadata:
    """The shared state of all nodes: batches by payload, images by offset, and sizes of ended transactions by number.
    `rules` is set if there are controllers; `clean_epochs` has the epochs that brokers stored at a clean shutdown.
    """

    def __init__(self, world: World, rules: Rules | None = None) -> None:
        self.world = world
        self.given_rules = rules
        self.cluster = ClusterChecker(world.checker)
        self.clean_epochs: dict[int, int] = {}
        # by broker: its epoch, and the epoch of its previous process
        self.epochs: dict[int, int] = {}
        self.past_epochs: dict[int, int] = {}
        self.batches: dict[int, list[Message]] = {}
        self.images: dict[int, MetadataImage] = {}
        self.snapshots: dict[OffsetAndEpoch, list[Message]] = {}
        self.sizes: dict[int, int] = {}

    @property
    def rules(self) -> Rules:
        assert self.given_rules is not None, "there are controllers"
        return self.given_rules

    def member(self, node: SimNode) -> Member:
        """Returns a new state machine for a process of the node."""
        if self.given_rules is None:
            return Member(self, node)
        return ControllerMember(self, node) if node.identity.can_vote else BrokerMember(self, node)

    @property
    def controllers(self) -> list[ControllerMember]:
        members = [node.metadata for node in self.world.nodes.values() if node.identity.can_vote]
        return [member for member in members if member is not None]  # type: ignore[misc]

    def records_of(self, entry: Entry) -> list[Message]:
        return self.batches.get(entry.payload, [])

    def saw(self, node: SimNode, delta: MetadataDelta, image: MetadataImage) -> None:
        """Checks an image that a node has published."""
        checker = self.world.checker
        offset = image.provenance.offset
        checker.count("C2")
        if offset >= checker.committed_end:
            checker.fail("C2", node.id, "publishes", offset, "of", checker.committed_end)
        known = self.images.setdefault(offset, image)
        checker.count("C1")
        if known is image:
            self.cluster.published(delta, image)
        elif not known.same_content(image):
            checker.fail("C1", node.id, "has another image at", offset)
        self._check_transactions(node, image)

    def _check_transactions(self, node: SimNode, image: MetadataImage) -> None:
        seen: dict[int, int] = {}
        for name in image.topics.by_name:
            if name.startswith("txn-"):
                number = int(name.split("-")[1])
                seen[number] = seen.get(number, 0) + 1
        for number, count in seen.items():
            self.world.checker.count("R14")
            if count != self.sizes.get(number):
                self.world.checker.fail("R14", node.id, "shows", count, "of transaction", number)
