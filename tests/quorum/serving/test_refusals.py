"""Refusals without a top-level error code: each requested item has the code, in order.

A repeated topic has it once.
"""

from __future__ import annotations

from tests.broker.calls import through_wire
from tests.checks import check_each
from trimaran.quorum.serving import refusals
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from trimaran.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from trimaran.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

CODE, WHY = ErrorCode.NOT_CONTROLLER, "another one is"
NO_ID, AN_ID = bytes(16), b"an id" * 3 + b"!"


def error_in(one):
    return one.error_code, one.error_message


def topics():
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            for name in "baab"
        ],
        timeout_ms=0,
    )
    answer = through_wire(refusals.fail_create_topics(request, CODE, WHY), 7)
    assert [(topic.name, *error_in(topic)) for topic in answer.topics] == [
        ("b", CODE, WHY),
        ("a", CODE, WHY),
    ]


def deletions():
    by_name = DeleteTopicsRequest(topic_names=["b", "a", "b"], timeout_ms=0)
    answer = through_wire(refusals.fail_delete_topics(by_name, CODE, WHY), 5)
    found = [(response.name, *error_in(response)) for response in answer.responses]
    assert found == [("b", CODE, WHY), ("a", CODE, WHY)]
    by_id = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name="c", topic_id=NO_ID),
            DeleteTopicState(name=None, topic_id=AN_ID),
            DeleteTopicState(name="c", topic_id=NO_ID),
        ],
        timeout_ms=0,
    )
    answer = through_wire(refusals.fail_delete_topics(by_id, CODE, WHY), 6)
    found = [
        (response.name, response.topic_id, *error_in(response)) for response in answer.responses
    ]
    assert found == [("c", NO_ID, CODE, WHY), (None, AN_ID, CODE, WHY)]


def partitions():
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in "bab"],
        timeout_ms=0,
        validate_only=False,
    )
    answer = through_wire(refusals.fail_create_partitions(request, CODE, WHY), 3)
    found = [(result.name, *error_in(result)) for result in answer.results]
    assert found == [("b", CODE, WHY), ("a", CODE, WHY)]


def reassignments():
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=[1]) for index in indexes
                ],
            )
            for name, indexes in (("b", [3, 1]), ("a", [2]))
        ]
    )
    answer = through_wire(refusals.fail_alter_reassignments(request, CODE, WHY), 1)
    assert error_in(answer) == (CODE, WHY)
    assert [
        (response.name, [(each.partition_index, *error_in(each)) for each in response.partitions])
        for response in answer.responses
    ] == [("b", [(3, CODE, WHY), (1, CODE, WHY)]), ("a", [(2, CODE, WHY)])]


def elections():
    request = ElectLeadersRequest(
        topic_partitions=[
            TopicPartitions(topic="b", partitions=[3, 1]),
            TopicPartitions(topic="a", partitions=[2]),
        ]
    )
    of_all = refusals.fail_elect_leaders(request.replace(topic_partitions=None), CODE, WHY)
    assert (of_all.error_code, of_all.replica_election_results) == (CODE, [])
    answer = refusals.fail_elect_leaders(request, CODE, WHY)
    assert answer.error_code == CODE
    for version, said in ((0, answer.replace(error_code=0)), (2, answer)):
        assert [
            (
                replica_election_result.topic,
                [
                    (each.partition_id, *error_in(each))
                    for each in replica_election_result.partition_result
                ],
            )
            for replica_election_result in through_wire(said, version).replica_election_results
        ] == [("b", [(3, CODE, WHY), (1, CODE, WHY)]), ("a", [(2, CODE, WHY)])]


def tokens():
    for fail, request in (
        (
            refusals.fail_expire_token,
            ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=1),
        ),
        (refusals.fail_renew_token, RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=1)),
    ):
        answer = through_wire(fail(request, CODE, WHY), 2)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (CODE, -1)


def test_each_requested_item_is_refused_with_reason():
    rows = (topics, deletions, partitions, reassignments, elections, tokens)
    check_each(rows, lambda check: check())
