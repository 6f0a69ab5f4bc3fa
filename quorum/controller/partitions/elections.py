"""Elections that are requested by an operator or run periodically.

Source: `ReplicationControlManager` of Kafka (`electLeaders`, `maybeBalancePartitionLeaders`,
`maybeElectUncleanLeaders`), KIP-460.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.partitions.changes import Election, change_partition
from trimaran.quorum.controller.partitions.state import ControllerState, PartitionRef
from trimaran.quorum.controller.partitions.topics import RECORDS_MAX, too_much
from trimaran.quorum.metadata.image import NO_LEADER
from trimaran.quorum.metadata.topic_names import quoted
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition, TopicPartition
from trimaran.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from trimaran.wire.records.topics import PartitionChangeRecord
from trimaran.wire.schema import Message

PREFERRED, UNCLEAN = 0, 1

_NOT_AVAILABLE = {
    PREFERRED: KafkaError(
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
    ),
    UNCLEAN: KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}
_KINDS = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}


def elect_leaders(
    request: ElectLeadersRequest, state: ControllerState
) -> Steps[Result[Message, ElectLeadersResponse]]:
    """Runs the elections that an operator requests: elections of preferred leaders, or unclean elections for partitions
    without a leader. One step for each topic or partition.

    If no partitions are named, all are tried, and the response omits those that need no election.

    Raises:
        KafkaError: INVALID_REQUEST if the election type is unknown; POLICY_VIOLATION if there are too many elections.
    """
    kind = request.election_type
    if kind not in _KINDS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
    asked = request.topic_partitions
    records: list[Message] = []
    results = []
    for topic in _every_partition(state) if asked is None else asked:
        yield 1
        partitions = []
        for index in topic.partitions:
            try:
                records.append(_elect_one(state, TopicPartition(topic.topic, index), kind))
                code, message = ErrorCode.NONE, None
            except KafkaError as error:
                code, message = error.code, error.message
            if asked is not None or code is not ErrorCode.ELECTION_NOT_NEEDED:
                partitions.append(
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                )
            yield 1
        if len(records) > RECORDS_MAX:
            raise too_much()
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=partitions))
    response = ElectLeadersResponse(replica_election_results=results)
    return Result(records, response, atomic=False)


def _every_partition(state: ControllerState) -> Iterator[TopicPartitions]:
    for name, topic in state.image.topics.by_name.items():
        yield TopicPartitions(topic=name, partitions=list(topic.partitions))


def _elect_one(state: ControllerState, key: TopicPartition, kind: int) -> PartitionChangeRecord:
    """Returns the change of one partition. Raises KafkaError with the reason if there is no election."""
    topic = state.image.topics.by_name.get(key.topic)
    if topic is None:
        why = f"No such topic as {quoted(key.topic)}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    partition = topic.partitions.get(key.partition)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {key}")
    needless = (
        partition.leader == partition.preferred_leader
        if kind == PREFERRED
        else partition.leader != NO_LEADER
    )
    if needless:
        raise KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    record = change_partition(
        PartitionRef(topic, key.partition, partition),
        state,
        state.may_lead(partition),
        election=_KINDS[kind],
    )
    if record is None:
        raise _NOT_AVAILABLE[kind]
    return record


def balance_leaders(state: ControllerState, keys: Iterable[TopicIdPartition]) -> list[Message]:
    """Moves leaderships back to preferred replicas that can lead."""
    return _elect_all(state, keys, Election.PREFERRED)


def elect_unclean(state: ControllerState, keys: Iterable[TopicIdPartition]) -> list[Message]:
    """Elects leaders for leaderless partitions whose topics allow unclean elections."""
    leaderless = (
        ref.key
        for ref in state.partition_refs(keys)
        if ref.partition.leader == NO_LEADER and state.allows_unclean(ref.topic)
    )
    return _elect_all(state, leaderless, Election.UNCLEAN)


def _elect_all(
    state: ControllerState, keys: Iterable[TopicIdPartition], election: Election
) -> list[Message]:
    found = (
        change_partition(ref, state, state.may_lead(ref.partition), election=election)
        for ref in state.partition_refs(keys)
    )
    return [record for record in found if record is not None]
