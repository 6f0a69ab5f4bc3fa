"""Responses with the same error for each item of the request, for responses without a top-level error code.

A repeated topic is refused once. Used by brokers, which forward such requests, and by controllers, which handle them.
In Kafka this is `AbstractRequest.getErrorResponse`.
"""

from __future__ import annotations

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from trimaran.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from trimaran.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from trimaran.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from trimaran.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from trimaran.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

NO_TIME = -1


def fail_create_topics(
    request: CreateTopicsRequest, code: ErrorCode, message: str
) -> CreateTopicsResponse:
    topics = [
        CreatableTopicResult(name=name, error_code=code, error_message=message)
        for name in dict.fromkeys(topic.name for topic in request.topics)
    ]
    return CreateTopicsResponse(topics=topics)


def fail_delete_topics(
    request: DeleteTopicsRequest, code: ErrorCode, message: str
) -> DeleteTopicsResponse:
    asked: list[tuple[str | None, bytes]] = [(name, NIL_UUID) for name in request.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in request.topics]
    responses = [
        DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)
        for name, topic_id in dict.fromkeys(asked)
    ]
    return DeleteTopicsResponse(responses=responses)


def fail_create_partitions(
    request: CreatePartitionsRequest, code: ErrorCode, message: str
) -> CreatePartitionsResponse:
    results = [
        CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
        for name in dict.fromkeys(topic.name for topic in request.topics)
    ]
    return CreatePartitionsResponse(results=results)


def fail_alter_reassignments(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> AlterPartitionReassignmentsResponse:
    """Returns the error at the top level and for each partition, as in Kafka."""
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=code,
                    error_message=message,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        error_code=code, error_message=message, responses=responses
    )


def fail_elect_leaders(
    request: ElectLeadersRequest, code: ErrorCode, message: str
) -> ElectLeadersResponse:
    """Returns the error at the top level and for each partition, as in Kafka: an election of all partitions names none
    of them, and version 0 has no top-level field.
    """
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def fail_expire_token(
    _request: ExpireDelegationTokenRequest, code: ErrorCode, _message: str
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)


def fail_renew_token(
    _request: RenewDelegationTokenRequest, code: ErrorCode, _message: str
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
