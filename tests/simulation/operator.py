"""An operator that creates and deletes topics, and sometimes requests more than fits into a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.controllers import ControllerMember
    from tests.simulation.metadata import Metadata

# bounds the cost of comparing whole images
TOPICS_MAX = 6
# one record more than a request may create, and more bytes than a simulated batch holds
TOO_MANY, TOO_LARGE = 10_001, 400


class Operator:
    def __init__(self, shared: Metadata) -> None:
        self._shared = shared

    def act(self) -> None:
        """Sends a request to a node that believes it is the active controller."""
        prng = self._shared.world.prng
        for member in self._shared.controllers:
            if member.node.alive and member.controller.is_active:
                kind = prng.random()
                if kind < 0.35:
                    member.ask(self._change(member), lambda _response: None)
                elif kind < 0.42:
                    self._ask_too_much(member)

    def is_in_order(self) -> bool:
        """Checks L1: in every controller's image, live brokers are unfenced and the others are fenced."""
        world = self._shared.world
        living = {i: node.alive for i, node in world.nodes.items() if not node.identity.can_vote}
        for member in self._shared.controllers:
            brokers = member.loader.image.cluster.brokers
            if member.node.alive and any(
                i in brokers and brokers[i].fenced == is_alive for i, is_alive in living.items()
            ):
                return False
        return True

    def _change(self, member: ControllerMember) -> Message:
        prng, world = self._shared.world.prng, self._shared.world
        topics = sorted(member.loader.image.topics.by_name)
        if topics and (len(topics) >= TOPICS_MAX or prng.random() < 0.2):
            return DeleteTopicsRequest(topic_names=[prng.choice(topics)], timeout_ms=1000)
        return self._create(f"topic-{world.next_payload()}", prng.randint(1, 4))

    def _create(self, name: str, partitions: int) -> Message:
        factor = self._shared.world.prng.choice((1, 2, 3, 3))
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=[],
            configs=[],
        )
        return CreateTopicsRequest(topics=[topic])

    def _ask_too_much(self, member: ControllerMember) -> None:
        member.refuse(
            self._create("too-much", self._shared.world.prng.choice((TOO_MANY, TOO_LARGE)))
        )
