"""The longest step of the active controller's loop while it decides about many partitions: CPU time from one checkpoint
to the next.

The controller is real, alone in its quorum, on real sockets; brokers are simulated by their requests from another
thread.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from bench.scale_steps import LongestStep
from bench.sizes import sized
from tests.cluster.in_process import cluster
from tests.cluster.nodes import CLUSTER_ID
from tests.quorum.metadata.build import uid
from trimaran.quorum.controller.server import RunningController
from trimaran.quorum.metadata.features import REGISTERED_FEATURES
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.messages import alter_partition as isr
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from trimaran.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest
from trimaran.wire.messages.unregister_broker import UnregisterBrokerRequest
from trimaran.wire.schema import Message

SECONDS = 120.0
BROKERS = (1, 2, 3, 4)
LATER = 1 << 40  # an offset that a broker has applied
# Nearly the most that the controller accepts in one request.
MANY = sized(9_000, 90)
TOPICS, SMALL_TOPICS = sized(500, 5), sized(5_000, 50)


@dataclass
class Brokers:
    """The requests of brokers and operators to the controller, over one connection."""

    image: Callable[[], MetadataImage]
    connection: BlockingConnection
    epochs: dict[int, int] = field(default_factory=dict)

    def call(self, request: Message) -> Any:
        return self.connection.call(request, timeout=SECONDS)

    def register(self, broker_id: int, life: int = 0) -> None:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=uid(1_000 * (life + 1) + broker_id),
            listeners=[
                Listener(name="PLAINTEXT", host="h", port=9000 + broker_id, security_protocol=0)
            ],
            features=[
                Feature(
                    name=registered_feature.name,
                    min_supported_version=registered_feature.min_level,
                    max_supported_version=registered_feature.max_level,
                )
                for registered_feature in REGISTERED_FEATURES
            ],
            rack=None,
            log_dirs=[uid(500 + broker_id)],
        )
        response = self.call(request)
        assert not response.error_code, response
        self.epochs[broker_id] = response.broker_epoch

    def beat(self, broker_id: int, **wishes: Any) -> None:
        values: dict[str, Any] = {"want_fence": False, "want_shut_down": False, **wishes}
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id],
            current_metadata_offset=LATER,
            **values,
        )
        response = self.call(request)
        assert not response.error_code, response

    def partitions(self, name: str) -> Iterator[tuple[int, Any]]:
        yield from self.image().topics.by_name[name].partitions.items()

    # --- the measured decisions, one after the other

    def wide_topic(self) -> None:
        self._create({"wide": MANY})

    def many_topics(self) -> None:
        self._create({f"topic-{number}": 10 for number in range(TOPICS)})

    def more_topics(self) -> None:
        self._create({f"one-{number}": 1 for number in range(SMALL_TOPICS)})

    def grow(self) -> None:
        topic = CreatePartitionsTopic(name="wide", count=2 * MANY, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=60_000, validate_only=False)
        assert not self.call(request).results[0].error_code

    def reassign(self) -> None:
        moves = [
            ReassignablePartition(
                partition_index=index, replicas=[*partition.replicas[1:], partition.replicas[0]]
            )
            for index, partition in self.partitions("wide")
        ]
        topics = [ReassignableTopic(name="wide", partitions=moves[:MANY])]
        response = self.call(AlterPartitionReassignmentsRequest(topics=topics))
        assert not response.error_code, response.error_message

    def elect(self) -> None:
        response = self.call(ElectLeadersRequest(election_type=0, topic_partitions=None))
        assert not response.error_code, response.error_message

    def shrink(self) -> None:
        """Shrinks the ISR of all partitions that one broker leads, as after a replica fell behind."""
        wide = self.image().topics.by_name["wide"]
        proposals = [
            isr.AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                leader_recovery_state=0,
                new_isr_with_epochs=[isr.BrokerState(broker_id=1, broker_epoch=-1)],
            )
            for index, partition in wide.partitions.items()
            if partition.leader == 1
        ]
        topics = [isr.AlterPartitionRequestTopicData(topic_id=wide.id, partitions=proposals)]
        request = isr.AlterPartitionRequest(broker_id=1, broker_epoch=self.epochs[1], topics=topics)
        assert not self.call(request).error_code

    def fence(self) -> None:
        self.beat(2, want_fence=True)

    def unfence(self) -> None:
        self.beat(2)

    def lose_a_directory(self) -> None:
        self.beat(3, offline_log_dirs=[uid(503)])

    def register_again(self) -> None:
        self.beat(4, want_fence=True, want_shut_down=True)
        self.register(4, life=1)

    def unregister(self) -> None:
        assert not self.call(UnregisterBrokerRequest(broker_id=1)).error_code

    def delete_wide(self) -> None:
        self._delete(["wide"])

    def delete_many(self) -> None:
        self._delete([name for name in self.image().topics.by_name if name.startswith("topic-")])

    def delete_more(self) -> None:
        self._delete([name for name in self.image().topics.by_name if name.startswith("one-")])

    def _create(self, counts: dict[str, int]) -> None:
        topics = [
            CreatableTopic(
                name=name, num_partitions=count, replication_factor=3, assignments=[], configs=[]
            )
            for name, count in counts.items()
        ]
        response = self.call(CreateTopicsRequest(topics=topics))
        assert not any(topic.error_code for topic in response.topics)

    def _delete(self, names: list[str]) -> None:
        topics = [DeleteTopicState(name=name, topic_id=NIL_UUID) for name in names]
        response = self.call(DeleteTopicsRequest(topics=topics, timeout_ms=60_000))
        assert not any(topic.error_code for topic in response.responses)


DECISIONS: dict[str, Callable[[Brokers], None]] = {
    f"a topic of {MANY:,} partitions": Brokers.wide_topic,
    f"{TOPICS} topics of 10 partitions": Brokers.many_topics,
    f"{SMALL_TOPICS:,} topics of one partition": Brokers.more_topics,
    f"{MANY:,} partitions added": Brokers.grow,
    f"{MANY:,} partitions reassigned": Brokers.reassign,
    f"preferred leaders among {2 * MANY + 10 * TOPICS + SMALL_TOPICS:,}": Brokers.elect,
    "ISRs of all that a broker leads shrunk": Brokers.shrink,
    "a broker fenced": Brokers.fence,
    "a broker unfenced": Brokers.unfence,
    "a broker's directory lost": Brokers.lose_a_directory,
    "a broker registered anew": Brokers.register_again,
    "a broker unregistered": Brokers.unregister,
    f"a topic of {2 * MANY:,} partitions deleted": Brokers.delete_wide,
    f"{TOPICS} topics of 10 partitions deleted": Brokers.delete_many,
    f"{SMALL_TOPICS:,} topics of one partition deleted": Brokers.delete_more,
}


def longest_steps() -> dict[str, float]:
    """Returns the CPU seconds of the longest step of each of `DECISIONS`, until all its consequences are applied."""
    return trio.run(_measure)


async def _measure() -> dict[str, float]:
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="decisions-") as root:
        async with cluster(Path(root), brokers=0, broker_session_timeout_ms=600_000) as nodes:
            active = await nodes.active()
            address = active.addresses["CONTROLLER"]
            connection = await trio.to_thread.run_sync(BlockingConnection, address)
            brokers = Brokers(lambda: active.loader.image, connection)
            try:
                for broker_id in BROKERS:
                    await trio.to_thread.run_sync(brokers.register, broker_id)
                    await trio.to_thread.run_sync(brokers.beat, broker_id)
                for name, play in DECISIONS.items():
                    found[name] = await _longest(active, play, brokers)
            finally:
                connection.close()
    return found


async def _longest(
    active: RunningController, play: Callable[[Brokers], None], brokers: Brokers
) -> float:
    longest = LongestStep()
    trio.lowlevel.add_instrument(longest)
    await trio.to_thread.run_sync(play, brokers)
    await _at_rest(active)
    trio.lowlevel.remove_instrument(longest)
    return longest.seconds


async def _at_rest(active: RunningController) -> None:
    """Waits until all decisions are applied and no further ones follow."""
    end = -1
    while (
        active.node.applied_offset < active.node.log_end_offset or end < active.node.applied_offset
    ):
        end = active.node.applied_offset
        await trio.sleep(0.2)
