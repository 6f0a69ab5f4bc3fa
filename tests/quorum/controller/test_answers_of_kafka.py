"""Responses of Apache Kafka 4.3 to malformed requests about topics, elections and reassignments, and ours.

The responses were recorded from a real cluster with three brokers and the topics "base" (replicas 1,2; 2,3; 3,1) and
"a.b". A case notes an intended difference. Messages about configs are in `test_configs`.
"""

import random

import pytest

from tests.quorum.config_of import config_of
from tests.quorum.controller.states import state_of
from tests.quorum.metadata.build import broker, features, image_of, partition, topic, uid
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.nodes.brokers import unregister_broker
from trimaran.quorum.controller.partitions.elections import elect_leaders
from trimaran.quorum.controller.partitions.reassignments import alter_reassignments
from trimaran.quorum.controller.partitions.topics import (
    TopicRules,
    create_partitions,
    create_topics,
    delete_topics,
)
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from trimaran.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

IMAGE = image_of(
    features(),
    *(broker(i) for i in (1, 2, 3)),
    topic("base", 1),
    *(partition(1, i, replicas) for i, replicas in enumerate(([1, 2], [2, 3], [3, 1]))),
    topic("a.b", 2),
    partition(2, 0, [1]),
)
STATE = state_of(IMAGE)
RULES = TopicRules(config_of(), random.Random(1), lambda: uid(50))
ONE_CHARACTER = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
TOO_FEW = (
    "cannot be reached because only 3 broker(s) are registered or some brokers have all their log directories "
    "cordoned."
)
MANUAL = "The manual partition assignment includes"


def one_error(answer):
    """Returns code and message of the one requested topic or partition."""
    return ErrorCode(answer.error_code).name, answer.error_message


# --- CreateTopics


def wanted(name="n", partitions=1, factor=1, by_hand=(), configs=()):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=i, broker_ids=list(ids))
            for i, ids in by_hand
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def by_hand(*assignments):
    return wanted(partitions=-1, factor=-1, by_hand=assignments)


@pytest.mark.parametrize(
    ("asked", "code", "text"),
    [
        (
            wanted(""),
            "INVALID_TOPIC_EXCEPTION",
            "Topic name is invalid: the empty string is not allowed",
        ),
        (wanted("."), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '.' is not allowed"),
        (wanted(".."), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '..' is not allowed"),
        *(
            (
                wanted(name),
                "INVALID_TOPIC_EXCEPTION",
                f"Topic name is invalid: '{name}' {ONE_CHARACTER}",
            )
            for name in ("a/b", "a b", "ä", "a\0", "bad!")
        ),
        (
            wanted("x" * 250),
            "INVALID_TOPIC_EXCEPTION",
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        (wanted("base"), "TOPIC_ALREADY_EXISTS", "Topic 'base' already exists."),
        (wanted("a.b"), "TOPIC_ALREADY_EXISTS", "Topic 'a.b' already exists."),
        (
            wanted("a_b"),
            "INVALID_TOPIC_EXCEPTION",
            "Topic 'a_b' collides with existing topic: a.b",
        ),
        (
            wanted("__cluster_metadata"),
            "INVALID_REQUEST",
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            wanted(configs=[("no.such", "1")]),
            "INVALID_CONFIG",
            "Unknown topic config name: no.such",
        ),
        (
            wanted(configs=[("retention.ms", "-7")]),
            "INVALID_CONFIG",
            "Invalid value -7 for configuration retention.ms: Value must be at least -1",
        ),
        *(
            (
                wanted(partitions=count),
                "INVALID_PARTITIONS",
                "Number of partitions was set to an invalid non-positive value.",
            )
            for count in (0, -2)
        ),
        *(
            (
                wanted(partitions=count, factor=factor),
                "INVALID_REPLICATION_FACTOR",
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
            for count, factor in ((1, 0), (1, -2), (0, 0))
        ),
        *(
            (
                wanted(factor=factor),
                "INVALID_REPLICATION_FACTOR",
                f"Unable to replicate the partition {factor} time(s): "
                f"The target replication factor of {factor} {TOO_FEW}",
            )
            for factor in (4, 32767)
        ),
        (
            wanted(configs=[("retention.ms", None)]),
            "INVALID_CONFIG",
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            wanted(configs=[("retention.ms", None), ("cleanup.policy", None)]),
            "INVALID_CONFIG",
            "Null value not supported for topic configs: retention.ms,cleanup.policy",
        ),
        *(
            (
                wanted(partitions=count, factor=1, by_hand=[(0, [1])]),
                "INVALID_REQUEST",
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
            for count in (-1, 1)
        ),
        (
            wanted(factor=-1, by_hand=[(0, [1])]),
            "INVALID_REQUEST",
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (by_hand((0, [])), "INVALID_REPLICA_ASSIGNMENT", f"{MANUAL} an empty replica list."),
        *(
            (
                by_hand((0, ids)),
                "INVALID_REPLICA_ASSIGNMENT",
                f"{MANUAL} broker {who}, but no such broker is registered.",
            )
            for ids, who in (([9], 9), ([9, 1, 8], 8), ([9, 9], 9), ([-1], -1))
        ),
        (
            by_hand((0, [1, 1])),
            "INVALID_REPLICA_ASSIGNMENT",
            f"{MANUAL} the broker 1 more than once.",
        ),
        *(
            (
                by_hand(*assignments),
                "INVALID_REPLICA_ASSIGNMENT",
                "partitions should be a consecutive 0-based integer sequence",
            )
            for assignments in ([(1, [1])], [(0, [1]), (2, [1])], [(-1, [1])])
        ),
        (
            by_hand((0, [1]), (0, [2])),
            "INVALID_REPLICA_ASSIGNMENT",
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            by_hand((0, [1]), (1, [2, 3])),
            "INVALID_REPLICA_ASSIGNMENT",
            f"{MANUAL} a partition with 2 replica(s), but this is not consistent with previous partitions, which have "
            "1 replica(s).",
        ),
        (by_hand((1, [1]), (0, [2])), "NONE", None),
        (wanted(partitions=9_999), "NONE", None),
    ],
)
def test_topic_creation_answers_like_kafka(asked, code, text):
    result = at_once(
        create_topics(CreateTopicsRequest(topics=[asked], validate_only=True), STATE, RULES)
    )
    assert one_error(result.response.topics[0]) == (code, text)


def test_duplicate_topics_answer_like_kafka():
    asked = CreateTopicsRequest(topics=[wanted("d"), wanted("d"), wanted("e")])
    answers = {
        topic.name: one_error(topic)
        for topic in at_once(create_topics(asked, STATE, RULES)).response.topics
    }
    assert answers == {"d": ("INVALID_REQUEST", "Duplicate topic name."), "e": ("NONE", None)}


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ([10_001], "Excessively large number of partitions per request."),
        ([4_000] * 3, "Excessively large number of partitions per request."),
        ([2**31 - 1], "Excessively large number of partitions per request."),
        ([10_000], "Unable to perform excessively large batch operation."),
    ],
)
def test_too_many_partitions_answer_like_kafka(counts, text):
    """C5."""
    asked = [wanted(f"n{i}", partitions=count) for i, count in enumerate(counts)]
    with pytest.raises(KafkaError) as caught:
        at_once(create_topics(CreateTopicsRequest(topics=asked), STATE, RULES))
    assert (caught.value.code, caught.value.message) == (ErrorCode.POLICY_VIOLATION, text)


# --- CreatePartitions


@pytest.mark.parametrize(
    ("name", "count", "assigned", "code", "text"),
    [
        ("base", 3, None, "INVALID_PARTITIONS", "Topic already has 3 partition(s)."),
        *(
            (
                "base",
                count,
                None,
                "INVALID_PARTITIONS",
                f"The topic base currently has 3 partition(s); {count} would not be an increase.",
            )
            for count in (1, 0, -1)
        ),
        ("nope", 5, None, "UNKNOWN_TOPIC_OR_PARTITION", None),
        ("", 4, None, "UNKNOWN_TOPIC_OR_PARTITION", None),
        *(
            (
                "base",
                count,
                assigned,
                "INVALID_REPLICA_ASSIGNMENT",
                f"Attempted to add {count - 3} additional partition(s), "
                f"but only {len(assigned)} assignment(s) were specified.",
            )
            for count, assigned in ((5, [[1, 2]]), (4, [[1, 2], [1, 3]]), (4, []))
        ),
        (
            "base",
            4,
            [[1]],
            "INVALID_REPLICA_ASSIGNMENT",
            f"{MANUAL} a partition with 1 replica(s), but this is not consistent with previous partitions, which have "
            "2 replica(s).",
        ),
        (
            "base",
            4,
            [[1, 9]],
            "INVALID_REPLICA_ASSIGNMENT",
            f"{MANUAL} broker 9, but no such broker is registered.",
        ),
        (
            "base",
            4,
            [[1, 1]],
            "INVALID_REPLICA_ASSIGNMENT",
            f"{MANUAL} the broker 1 more than once.",
        ),
        ("base", 4, [[]], "INVALID_REPLICA_ASSIGNMENT", f"{MANUAL} an empty replica list."),
        ("base", 4, None, "NONE", None),
    ],
)
def test_added_partitions_answer_like_kafka(name, count, assigned, code, text):
    given = assigned and [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    asked = CreatePartitionsTopic(name=name, count=count, assignments=given)
    request = CreatePartitionsRequest(topics=[asked], timeout_ms=0, validate_only=True)
    result = at_once(create_partitions(request, IMAGE, RULES))
    assert one_error(result.response.results[0]) == (code, text)


# --- DeleteTopics


@pytest.mark.parametrize(
    ("asked", "code", "text"),
    [
        *(
            (
                [(name, NIL_UUID)],
                "UNKNOWN_TOPIC_OR_PARTITION",
                "This server does not host this topic-partition.",
            )
            for name in ("nope", "")
        ),
        ([(None, uid(9))], "UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
        ([(None, NIL_UUID)], "INVALID_REQUEST", "Neither topic name nor id were specified."),
        (
            [("base", uid(9))],
            "INVALID_REQUEST",
            "You may not specify both topic name and topic id.",
        ),
        ([("base", NIL_UUID)] * 2, "INVALID_REQUEST", "Duplicate topic name."),
        ([(None, uid(9))] * 2, "INVALID_REQUEST", "Duplicate topic id."),
    ],
)
def test_topic_deletion_answers_like_kafka(asked, code, text):
    states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in asked]
    request = DeleteTopicsRequest(topics=states, topic_names=[], timeout_ms=0)
    result = at_once(delete_topics(request, IMAGE, enabled=True, version=6))
    assert [one_error(response) for response in result.response.responses] == [(code, text)]


# --- ElectLeaders, AlterPartitionReassignments, UnregisterBroker


@pytest.mark.parametrize(
    ("kind", "name", "index", "code", "text"),
    [
        (0, "nope", 0, "UNKNOWN_TOPIC_OR_PARTITION", "No such topic as nope"),
        (0, "base", 77, "UNKNOWN_TOPIC_OR_PARTITION", "No such partition as base-77"),
        (0, "base", -1, "UNKNOWN_TOPIC_OR_PARTITION", "No such partition as base--1"),
        *(
            (
                kind,
                "base",
                0,
                "ELECTION_NOT_NEEDED",
                "Leader election not needed for topic partition.",
            )
            for kind in (0, 1)
        ),
    ],
)
def test_leader_election_answers_like_kafka(kind, name, index, code, text):
    asked = [TopicPartitions(topic=name, partitions=[index])]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
    result = at_once(elect_leaders(request, STATE))
    (answer,) = result.response.replica_election_results[0].partition_result
    assert one_error(answer) == (code, text)


@pytest.mark.parametrize(
    ("name", "index", "replicas", "code", "text"),
    [
        ("nope", 0, [1], "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find a topic named nope."),
        ("nope", 0, None, "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find a topic named nope."),
        ("base", 77, [1], "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find partition base:77."),
        ("base", 0, [], "INVALID_REPLICA_ASSIGNMENT", f"{MANUAL} an empty replica list."),
        *(
            (
                "base",
                0,
                ids,
                "INVALID_REPLICA_ASSIGNMENT",
                f"{MANUAL} broker {who}, but no such broker is registered.",
            )
            for ids, who in (([1, 9], 9), ([-5], -5))
        ),
        ("base", 0, [1, 1], "INVALID_REPLICA_ASSIGNMENT", f"{MANUAL} the broker 1 more than once."),
        ("base", 0, None, "NO_REASSIGNMENT_IN_PROGRESS", None),
        (
            "base",
            0,
            [1],
            "INVALID_REPLICATION_FACTOR",
            "The replication factor is changed from 2 to 1",
        ),
    ],
)
def test_reassignment_answers_like_kafka(name, index, replicas, code, text):
    asked = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=code != "INVALID_REPLICATION_FACTOR",
        topics=[ReassignableTopic(name=name, partitions=[asked])],
    )
    result = at_once(alter_reassignments(request, STATE))
    assert one_error(result.response.responses[0].partitions[0]) == (code, text)


def test_unregistering_unknown_broker_answers_like_kafka():
    with pytest.raises(KafkaError) as caught:
        at_once(unregister_broker(STATE, 77))
    assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert caught.value.message == "Broker ID 77 is not currently registered"
