"""The controller of the simulation, which never dies and decides like the real one. It serves AlterPartition,
registrations, heartbeats and directory assignments with the functions of `trimaran.quorum.controller`, and fences
brokers with expired leases. As an operator would request, it reassigns partitions, elects preferred leaders, and
deletes and recreates topics. Its decisions are committed at once, and brokers learn of them at different times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tests.quorum.config_of import config_of
from tests.simulation.partitions.network import CONTROLLER
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.handlers.broker_heartbeat import heartbeat
from trimaran.quorum.controller.nodes.brokers import fence_broker, register_broker
from trimaran.quorum.controller.nodes.directories import assign_replicas
from trimaran.quorum.controller.nodes.leases import Lease, Leases
from trimaran.quorum.controller.partitions.alter_partition import alter_partition
from trimaran.quorum.controller.partitions.broker_changes import check_broker_epoch
from trimaran.quorum.controller.partitions.elections import UNCLEAN, balance_leaders, elect_leaders
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.controller.partitions.new_partitions import default_directory
from trimaran.quorum.controller.partitions.reassignments import alter_reassignments
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.features import ELR_VERSION, bootstrap_records, first_levels
from trimaran.quorum.metadata.image import TOPIC_RESOURCE, MetadataImage, PartitionImage, Provenance
from trimaran.quorum.metadata.records import partition_record
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from trimaran.wire.messages.broker_registration import BrokerRegistrationRequest
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.topics import RemoveTopicRecord, TopicRecord
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker
    from tests.simulation.partitions.world import World

SESSION_SECONDS = 1.0
LOOK_SECONDS = 0.2
REFUSALS: dict[type[Message], type[Any]] = {
    AlterPartitionRequest: AlterPartitionResponse,
    AssignReplicasToDirsRequest: AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest: BrokerHeartbeatResponse,
}


@cache
def _config() -> ServerConfig:
    return config_of()


class Batch(NamedTuple):
    records: Sequence[Message]
    provenance: Provenance


class SimController:
    def __init__(self, world: World) -> None:
        self.world = world
        self.image = MetadataImage()
        self.index = PartitionIndex()
        self.leases = Leases(SESSION_SECONDS)
        # Each batch has one offset, which therefore identifies it.
        self.log: list[Batch] = []
        self.write(bootstrap_records(self.first_levels()))

    def first_levels(self) -> dict[str, int]:
        """Returns the levels of the cluster's features."""
        return first_levels({ELR_VERSION: int(self.world.rules.elr)})

    @property
    def offset(self) -> int:
        return len(self.log) - 1

    @property
    def state(self) -> ControllerState:
        return ControllerState(self.image, self.index, _config())

    def write(self, records: Sequence[Message]) -> None:
        """Commits `records`, and publishes them to all brokers."""
        if not records:
            return
        provenance = Provenance(self.offset + 1, 1, self.world.now_ms())
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        before, self.image = self.image, delta.apply(provenance)
        for _ in self.index.apply(delta.topics, self.image.topics):
            pass
        self.log.append(Batch(records, provenance))
        self.world.metadata_changed(before, self.image)
        for broker in self.world.brokers.values():
            self.tell(broker)

    def tell(self, broker: SimBroker) -> None:
        """Lets a broker catch up after the network delay; without a link, it catches up once the link is restored."""
        network = self.world.network

        def arrive() -> None:
            if broker.alive and not network.is_cut(CONTROLLER, broker.id):
                broker.catch_up()

        self.world.after(network.delay(CONTROLLER, broker.id), arrive)

    # --- requests

    def serve(self, broker: SimBroker, request: Message) -> Message:
        try:
            return self._handlers[type(request)](self, broker, request)
        except KafkaError as error:
            return REFUSALS[type(request)](**_refusal(request, error.code))

    def _alter_partition(self, broker: SimBroker, request: AlterPartitionRequest) -> Message:
        self.world.checker.asked(broker, request)
        result = at_once(alter_partition(request, self.state))
        self.write(list(result.records))
        if any(
            partition.error_code
            for topic in result.response.topics
            for partition in topic.partitions
        ):
            self.world.happened["ISR refused"] += 1
        elif result.records:
            self.world.happened["ISR changed"] += 1
        return result.response

    def _assign(self, broker: SimBroker, request: AssignReplicasToDirsRequest) -> Message:
        result = at_once(assign_replicas(request, self.state))
        self.write(list(result.records))
        return result.response

    def _register(self, broker: SimBroker, request: BrokerRegistrationRequest) -> Message:
        result = register_broker(request, self.state, broker_epoch=self.offset + 1)
        broker.was_wiped = False
        self.world.say("controller: broker", broker.id, "has epoch", result.response.broker_epoch)
        self.write(list(result.records))
        return result.response

    def _beat(self, broker: SimBroker, request: BrokerHeartbeatRequest) -> Message:
        check_broker_epoch(self.image, request.broker_id, request.broker_epoch)
        lease = self.leases.extend(request.broker_id, request.broker_epoch, self.world.now)
        result = at_once(
            heartbeat(
                request,
                self.state,
                lease,
                registered_at=request.broker_epoch,
                lowest_active_offset=self._lowest_active_offset(),
            )
        )
        reply = result.response
        self.write(list(result.records))
        lease.metadata_offset = request.current_metadata_offset
        self._note_shutdown(lease, fenced=reply.is_fenced, shutting_down=reply.shutting_down)
        if reply.should_shut_down:
            self.leases.end(broker.id)
        return BrokerHeartbeatResponse(
            is_caught_up=reply.is_caught_up,
            is_fenced=reply.is_fenced,
            should_shut_down=reply.should_shut_down,
        )

    def _note_shutdown(self, lease: Lease, *, fenced: bool, shutting_down: bool) -> None:
        if fenced:
            lease.shutdown_offset = -1
        elif shutting_down and lease.shutdown_offset < 0:
            lease.shutdown_offset = self.offset

    def _lowest_active_offset(self) -> int | None:
        return self.leases.lowest_active_offset(self.image)

    _handlers: ClassVar[dict[type[Message], Callable[..., Message]]] = {
        AlterPartitionRequest: _alter_partition,
        AssignReplicasToDirsRequest: _assign,
        BrokerRegistrationRequest: _register,
        BrokerHeartbeatRequest: _beat,
    }

    # --- sessions

    def look(self) -> None:
        """Fences brokers whose session has expired."""
        for lease in self.leases.expired(self.world.now):
            self.leases.end(lease.broker_id)
            broker = self.image.cluster.brokers.get(lease.broker_id)
            if broker is not None and broker.epoch == lease.broker_epoch and not broker.fenced:
                self.world.say("controller: broker", broker.id, "is fenced")
                self.world.happened["fenced"] += 1
                self.write(at_once(fence_broker(self.state, broker)))
        self.world.after(LOOK_SECONDS, self.look)

    # --- an operator's requests

    def create_topic(self, name: str, topic_id: bytes, replicas: Sequence[Sequence[int]]) -> None:
        records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
        for index, members in enumerate(replicas):
            partition = PartitionImage(
                replicas=tuple(members),
                directories=tuple(default_directory(self.image, member) for member in members),
                isr=tuple(members),
                leader=members[0],
            )
            records.append(partition_record(TopicIdPartition(topic_id, index), partition))
        for key, value in self.topic_configs(name).items():
            records.append(
                ConfigRecord(
                    resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=str(value)
                )
            )
        self.write(records)

    def topic_configs(self, _name: str) -> dict[str, object]:
        """Returns the configs of a new topic."""
        rules = self.world.rules
        return {
            "min.insync.replicas": rules.min_isr,
            "segment.bytes": rules.segment_bytes,
            "retention.bytes": rules.retention_bytes,
            "index.interval.bytes": 200,
            **({"preallocate": "true"} if rules.preallocates and rules.directories > 1 else {}),
        }

    def delete_topic(self, topic_id: bytes) -> None:
        self.write([RemoveTopicRecord(topic_id=topic_id)])

    def reassign(self, name: str, index: int, replicas: Sequence[int]) -> bool:
        """Begins a reassignment; returns whether one began."""
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=1000,
            topics=[
                ReassignableTopic(
                    name=name,
                    partitions=[
                        ReassignablePartition(partition_index=index, replicas=list(replicas))
                    ],
                )
            ],
        )
        result = at_once(alter_reassignments(request, self.state))
        self.write(list(result.records))
        return bool(result.records)

    def elect_anyway(self, name: str, index: int) -> None:
        """Elects a leader uncleanly."""
        asked = [TopicPartitions(topic=name, partitions=[index])]
        request = ElectLeadersRequest(
            election_type=UNCLEAN, topic_partitions=asked, timeout_ms=1000
        )
        self.write(list(at_once(elect_leaders(request, self.state)).records))

    def balance(self) -> bool:
        """Elects preferred leaders; returns whether a leader moved."""
        records = balance_leaders(self.state, list(self.index.imbalanced))
        self.write(records)
        return bool(records)


def _refusal(request: Message, code: ErrorCode) -> dict[str, Any]:
    values: dict[str, Any] = {"error_code": code}
    if isinstance(request, AlterPartitionRequest):
        values["topics"] = []
    elif isinstance(request, AssignReplicasToDirsRequest):
        values["directories"] = []
    else:
        values["should_shut_down"] = False
    return values
