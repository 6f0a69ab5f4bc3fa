"""Brokers without sockets: observers that register, send heartbeats, change ISRs, leave and return. A broker acts on
its own image, which may be stale, and on the leader known to its own replica of the log. Its messages are lost, delayed
and duplicated like those of the other nodes. Its storage is not simulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.member import Member
from trimaran.quorum.metadata.features import SUPPORTED_FEATURES
from trimaran.quorum.metadata.image import PartitionImage, TopicImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from trimaran.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.metadata import Metadata
    from tests.simulation.node import SimNode

HEARTBEAT_SECONDS = 0.3
FEATURES = [
    Feature(name=f.name, min_supported_version=f.min_level, max_supported_version=f.max_level)
    for f in SUPPORTED_FEATURES
]


class BrokerMember(Member):
    """One life of a broker: an incarnation."""

    def __init__(self, shared: Metadata, node: SimNode) -> None:
        super().__init__(shared, node)
        self.incarnation = node.prng.randbytes(16)
        self.epoch = -1
        self.leaving = False
        self._life = node.life
        shared.world.after(node.prng.uniform(0, HEARTBEAT_SECONDS), self._turn)

    def stopped(self) -> None:
        """Closes its sockets, which every reachable controller notices."""
        world, source, life = self.shared.world, self.node.id, self._life
        for controller in self.shared.controllers:
            if controller.node.alive and (source, controller.node.id) not in world.network.cut:
                lost = controller.lost_connection
                world.after(0.002, lambda lost=lost: lost(source, life))  # type: ignore[misc]

    def _turn(self) -> None:
        node, world = self.node, self.shared.world
        if not node.alive or node.life != self._life:
            return
        if self.epoch < 0:
            self._send(self._registration())
        else:
            self.leaving = self.leaving or (not world.is_calm and node.prng.random() < 0.02)
            self._send(self._heartbeat(self.epoch))
            past = self.shared.past_epochs.get(node.id, self.epoch)
            if past != self.epoch and node.prng.random() < 0.1:
                self._send(
                    self._heartbeat(past)
                )  # the process that was believed dead, or one of its late messages
            if node.prng.random() < 0.05:
                self._send(self._registration())  # as if its response had been late
            proposal = self._isr_proposal()
            if proposal is not None:
                self._send(proposal)
        world.after(node.prng.uniform(0.5, 1) * HEARTBEAT_SECONDS, self._turn)

    def _send(self, request: Message) -> None:
        leader = self.node.raft.leader_id
        if leader in self.shared.world.nodes:
            self.shared.world.network.call(self.node, leader, request, self._on_response)

    def _on_response(self, response: Message | ErrorCode) -> None:
        if isinstance(response, BrokerRegistrationResponse) and not response.error_code:
            self.shared.cluster.registers(self.node.id, self.incarnation, response.broker_epoch)
            if self.epoch < 0:
                self.shared.past_epochs[self.node.id] = self.shared.epochs.get(self.node.id, -1)
                self.shared.epochs[self.node.id] = response.broker_epoch
            self.epoch = response.broker_epoch
        elif isinstance(response, BrokerHeartbeatResponse) and response.should_shut_down:
            self.shared.world.happened["controlled shutdown"] += 1
            self.shared.clean_epochs[self.node.id] = self.epoch
            self.shared.world.crash(self.node)
        elif isinstance(response, AlterPartitionResponse):
            error = response.topics[0].partitions[0].error_code
            self.shared.world.happened["ISR refused" if error else "ISR changed"] += 1

    def _registration(self) -> Message:
        broker_id = self.node.id
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="sim",
            incarnation_id=self.incarnation,
            listeners=[Listener(name="PLAINTEXT", host="sim", port=broker_id, security_protocol=0)],
            features=FEATURES,
            rack=None,
            log_dirs=[bytes([100 + broker_id]) * 16],
            previous_broker_epoch=self.shared.clean_epochs.get(broker_id, -1),
        )

    def _heartbeat(self, epoch: int) -> Message:
        return BrokerHeartbeatRequest(
            broker_id=self.node.id,
            broker_epoch=epoch,
            current_metadata_offset=self.node.applied - 1,
            want_fence=False,
            want_shut_down=self.leaving,
        )

    # --- ISRs

    def _isr_proposal(self) -> Message | None:
        """Returns a leader's proposal to add or remove a random follower."""
        prng = self.node.prng
        led = [
            (topic, number, partition)
            for _, topic in sorted(self.loader.image.topics.by_id.items())
            for number, partition in sorted(topic.partitions.items())
            if partition.leader == self.node.id and len(partition.replicas) > 1
        ]
        if not led or prng.random() < 0.3:
            return None
        topic, number, partition = prng.choice(led)
        other = prng.choice([replica for replica in partition.replicas if replica != self.node.id])
        isr = set(partition.isr) ^ {other}
        if len(partition.isr) == 1 and partition.leader_recovery_state:
            isr = set(partition.isr)
        return self._alter(topic, number, partition, sorted(isr))

    def _alter(
        self, topic: TopicImage, number: int, partition: PartitionImage, isr: list[int]
    ) -> Message:
        brokers = self.loader.image.cluster.brokers
        wanted = AlterPartitionRequestPartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=i, broker_epoch=brokers[i].epoch if i in brokers else -1)
                for i in isr
            ],
            partition_epoch=partition.partition_epoch,
        )
        asked = AlterPartitionRequestTopicData(topic_id=topic.id, partitions=[wanted])
        return AlterPartitionRequest(
            broker_id=self.node.id, broker_epoch=self.epoch, topics=[asked]
        )
