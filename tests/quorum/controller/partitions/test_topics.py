"""CreateTopics, CreatePartitions, DeleteTopics as decisions."""

import itertools
import random

import pytest

from tests.quorum.config_of import config_of
from tests.quorum.controller.states import state_of
from tests.quorum.metadata.build import (
    broker,
    changed_broker,
    config,
    features,
    image_of,
    partition,
    topic,
    uid,
)
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.configs.policies import Policies
from trimaran.quorum.controller.partitions.topics import (
    TopicRules,
    create_partitions,
    create_topics,
    delete_topics,
    new_topic_id,
)
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.metadata.topic_names import in_metrics, why_illegal
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
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
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.metadata import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)
from trimaran.wire.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord

BROKERS = (features(), broker(1), broker(2), broker(3))
IMAGE = image_of(*BROKERS)


def rules(**keys):
    ids = itertools.count(50)
    return TopicRules(config_of(**keys), random.Random(1), lambda: uid(next(ids)))


def wanted(name="t", *, partitions=3, factor=2, assignments=(), configs=()):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=i, broker_ids=list(b))
            for i, b in assignments
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in configs],
    )


def create(*topics, image=IMAGE, validate_only=False, **keys):
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    result = at_once(create_topics(request, state_of(image), rules(**keys)))
    return result, {topic.name: ErrorCode(topic.error_code) for topic in result.response.topics}


# --- ids


def test_new_topic_id_is_neither_reserved_nor_dashed(monkeypatch):
    """The text of an id that begins with 0xf8 to 0xfb begins with a dash."""
    drawn = [bytes(16), (99).to_bytes(16, "big"), b"\xf8" + bytes(15), b"\xfb" + bytes(15)]
    for good in ((100).to_bytes(16, "big"), b"\xf7" + b"\xf8" * 15, b"\xfc" + b"\xf8" * 15):
        numbers = iter([*drawn, good])
        monkeypatch.setattr("os.urandom", lambda _, numbers=numbers: next(numbers))
        assert new_topic_id() == good


# --- CreateTopics


def test_topic_is_created_with_configs_before_partitions():
    result, codes = create(wanted(configs=[("retention.ms", "5")]))
    assert codes == {"t": ErrorCode.NONE}
    assert [type(r) for r in result.records] == [TopicRecord, ConfigRecord] + [PartitionRecord] * 3
    assert result.atomic
    made = image_of(*result.records, base=IMAGE).topics.by_name["t"]
    for found in made.partitions.values():
        assert len(set(found.replicas)) == 2
        assert (found.isr, found.leader, found.leader_epoch) == (
            found.replicas,
            found.replicas[0],
            0,
        )
        assert found.directories == tuple(uid(500 + replica) for replica in found.replicas)
    assert sorted(found.leader for found in made.partitions.values()) == [1, 2, 3]


def test_answer_describes_created_topic():
    result, _ = create(wanted(configs=[("retention.ms", "5")]), log_segment_bytes=2 << 20)
    (answer,) = result.response.topics
    assert (answer.topic_id, answer.num_partitions, answer.replication_factor) == (uid(50), 3, 2)
    told = {config.name: (config.value, config.config_source) for config in answer.configs}
    assert told["retention.ms"] == ("5", 1)
    assert told["segment.bytes"] == (str(2 << 20), 4)
    assert told["cleanup.policy"] == ("delete", 5)


def test_partition_and_replica_counts_have_defaults():
    result, _ = create(
        wanted(partitions=-1, factor=-1), num_partitions=4, default_replication_factor=3
    )
    made = [r for r in result.records if isinstance(r, PartitionRecord)]
    assert [len(r.replicas) for r in made] == [3] * 4


def test_validate_only_creates_no_topic():
    result, codes = create(wanted(), validate_only=True)
    assert result.records == []
    assert codes == {"t": ErrorCode.NONE}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (wanted(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted("a.b"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (wanted("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (wanted(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (wanted(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (wanted(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted(factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted(configs=[("no.such", "1")]), ErrorCode.INVALID_CONFIG),
        (wanted(configs=[("retention.ms", "soon")]), ErrorCode.INVALID_CONFIG),
        (wanted(configs=[("retention.ms", None)]), ErrorCode.INVALID_CONFIG),
        (wanted(configs=[("cleanup.policy", "burn")]), ErrorCode.INVALID_CONFIG),
        (wanted(assignments=[(0, [1])], factor=-1), ErrorCode.INVALID_REQUEST),
        (wanted(assignments=[(0, [1])], partitions=-1), ErrorCode.INVALID_REQUEST),
        (
            wanted(partitions=-1, factor=-1, assignments=[(0, [])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            wanted(partitions=-1, factor=-1, assignments=[(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            wanted(partitions=-1, factor=-1, assignments=[(0, [9])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            wanted(partitions=-1, factor=-1, assignments=[(1, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            wanted(partitions=-1, factor=-1, assignments=[(0, [1]), (0, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            wanted(partitions=-1, factor=-1, assignments=[(0, [1]), (1, [2, 3])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_invalid_topics_are_not_created(asked, code):
    image = image_of(topic("a.b", 1), partition(1, 0, [1]), base=IMAGE)
    result, codes = create(asked, image=image)
    assert result.records == []
    assert list(codes.values()) == [code]


def test_invalid_topic_does_not_affect_the_others():
    result, codes = create(wanted("good"), wanted("bad!"))
    assert codes == {"good": ErrorCode.NONE, "bad!": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert [r.name for r in result.records if isinstance(r, TopicRecord)] == ["good"]


def test_topics_of_one_request_must_not_collide():
    _, codes = create(wanted("a.b"), wanted("a_b"))
    assert codes == {"a.b": ErrorCode.NONE, "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_illegal_name_is_refused_before_a_collision():
    image = image_of(topic("_", 1), partition(1, 0, [1, 2]), base=IMAGE)
    result, codes = create(wanted("."), wanted("a.b"), image=image)
    assert codes == {".": ErrorCode.INVALID_TOPIC_EXCEPTION, "a.b": ErrorCode.NONE}
    messages = {topic.name: topic.error_message for topic in result.response.topics}
    assert messages == {".": why_illegal("."), "a.b": None}


def test_topic_named_twice_is_not_created():
    result, codes = create(wanted("t"), wanted("t"), wanted("u"))
    assert codes == {"t": ErrorCode.INVALID_REQUEST, "u": ErrorCode.NONE}
    assert len(result.response.topics) == 2


def test_manual_assignment_is_used():
    result, codes = create(wanted(partitions=-1, factor=-1, assignments=[(1, [3, 1]), (0, [2, 3])]))
    assert codes == {"t": ErrorCode.NONE}
    assert [(r.partition_id, r.replicas) for r in result.records[1:]] == [(0, [2, 3]), (1, [3, 1])]


def test_fenced_replicas_are_not_in_sync():
    image = image_of(changed_broker(2, fenced=1), base=IMAGE)
    result, _ = create(wanted(partitions=-1, factor=-1, assignments=[(0, [2, 3])]), image=image)
    assert (result.records[1].replicas, result.records[1].isr, result.records[1].leader) == (
        [2, 3],
        [3],
        3,
    )


def test_assignment_without_live_leader_is_refused():
    image = image_of(*(changed_broker(i, fenced=1) for i in (1, 2, 3)), base=IMAGE)
    assert create(wanted(), image=image)[1] == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}
    by_hand = wanted(partitions=-1, factor=-1, assignments=[(0, [2, 3])])
    assert create(by_hand, image=image)[1] == {"t": ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_million_partitions_fail_as_whole_request():
    """C5, KAFKA-14996."""
    for asked in (
        [wanted(partitions=1_000_000)],
        [wanted(f"t{i}", partitions=4000) for i in range(3)],
        [wanted(partitions=-1, factor=-1, assignments=[(i, [1]) for i in range(10_001)])],
        [wanted("t", partitions=10_001), wanted("less than none", partitions=-2)],
    ):
        with pytest.raises(KafkaError, match="number of partitions per request") as caught:
            create(*asked)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_policy_sees_manual_assignments():
    seen = []
    policies = Policies(create_topic=seen.append)
    asking = TopicRules(config_of(), random.Random(1), new_topic_id, policies)
    by_hand = wanted("hand", partitions=-1, factor=-1, assignments=[(0, [2, 3])])
    request = CreateTopicsRequest(topics=[wanted("placed", partitions=1), by_hand])
    at_once(create_topics(request, state_of(IMAGE), asking))
    assert [(entry.name, entry.assignments) for entry in seen] == [
        ("placed", None),
        ("hand", {0: [2, 3]}),
    ]


@pytest.mark.parametrize("name", ["a", "a-b", "a.b", "_", "x" * 249, "0", "..."])
def test_legal_topic_names_are_accepted(name):
    assert why_illegal(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a\n", "ä", "a/b", "a\0"])
def test_illegal_topic_names_are_refused(name):
    assert why_illegal(name)


def test_names_collide_only_by_dots_and_underscores():
    assert in_metrics("a.b_c") == in_metrics("a_b.c") == "a_b_c"
    assert len({in_metrics(name) for name in ("a.b", "a-b", "aXb")}) == 3


def test_topics_with_too_much_text_are_refused():
    """B2. A list of 32,767 bytes takes a millisecond to check."""
    key, value = "leader.replication.throttled.replicas", ",".join(["0:1"] * 8_000)
    several = [wanted(f"t{i}", configs=[(key, value)]) for i in range(300)]
    with pytest.raises(KafkaError) as caught:
        create(*several)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    request = CreateTopicsRequest(topics=several[:1])
    assert sum(create_topics(request, state_of(IMAGE), rules())) > 300


# --- CreatePartitions

WITH_TOPIC = image_of(topic("t", 1), partition(1, 0, [1, 2]), partition(1, 1, [2, 3]), base=IMAGE)


def add(count, *, assignments=None, name="t", image=WITH_TOPIC, validate_only=False):
    given = (
        None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=list(a)) for a in assignments]
    )
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=given)],
        timeout_ms=0,
        validate_only=validate_only,
    )
    result = at_once(create_partitions(request, image, rules()))
    return result.records, ErrorCode(result.response.results[0].error_code)


def test_partitions_are_added():
    records, code = add(4)
    assert code is ErrorCode.NONE
    assert [(r.partition_id, len(r.replicas)) for r in records] == [(2, 2), (3, 2)]
    assert add(4, validate_only=True) == ([], ErrorCode.NONE)


def test_added_partitions_use_manual_assignment():
    records, _ = add(3, assignments=[[3, 1]])
    assert records[0].replicas == [3, 1]


@pytest.mark.parametrize(
    ("count", "more", "code"),
    [
        (2, {}, ErrorCode.INVALID_PARTITIONS),
        (1, {}, ErrorCode.INVALID_PARTITIONS),
        (3, {"name": "u"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (3, {"assignments": []}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, {"assignments": [[1]]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, {"assignments": [[1, 9]]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_partition_additions_are_refused(count, more, code):
    assert add(count, **more) == ([], code)


def test_too_many_new_partitions_fail_as_whole():
    assert len(add(10_002)[0]) == 10_000
    for count in (10_003, 2_000_000_000):
        with pytest.raises(KafkaError) as caught:
            add(count)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_excessive_partitions_are_refused_before_the_work():
    """Each topic is within the limit of a request, all of them together are six times above it."""
    many = image_of(
        *(topic(f"u{i}", i) for i in range(10, 20)),
        *(partition(i, 0, [1, 2]) for i in range(10, 20)),
        base=IMAGE,
    )
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=f"u{i}", count=6_001, assignments=None)
            for i in range(10, 20)
        ],
        timeout_ms=0,
        validate_only=False,
    )
    steps = create_partitions(request, many, rules())
    done: list[int] = []
    with pytest.raises(KafkaError) as caught:
        done.extend(steps)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert 6_000 <= sum(done) <= 2 * 6_000 + 1  # the first topic: partitions and their records


@pytest.mark.parametrize(
    "known", [[partition(2, 0, [1, 2])], [partition(2, 0, [3, 1]), partition(2, 1, [1])]]
)
def test_new_partitions_inherit_replication_of_first(known):
    image = image_of(topic("u", 2), *known, base=IMAGE)
    records, _ = add(3, name="u", image=image)
    assert {len(record.replicas) for record in records} == {2}


def test_topic_named_twice_gets_no_partitions():
    one = CreatePartitionsTopic(name="t", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[one, one], timeout_ms=0, validate_only=False)
    result = at_once(create_partitions(request, WITH_TOPIC, rules()))
    assert result.records == []
    assert [answer.error_code for answer in result.response.results] == [ErrorCode.INVALID_REQUEST]


# --- DeleteTopics


def remove(*, names=(), states=(), enabled=True, version=6, **rights):
    request = DeleteTopicsRequest(
        topic_names=list(names),
        topics=[DeleteTopicState(name=n, topic_id=i) for n, i in states],
        timeout_ms=0,
    )
    image = image_of(config("retention.ms", "1"), base=WITH_TOPIC)
    result = at_once(delete_topics(request, image, enabled=enabled, version=version, **rights))
    answers = [
        (response.name, response.topic_id, ErrorCode(response.error_code))
        for response in result.response.responses
    ]
    return result.records, answers


def test_a_topic_is_deleted_by_name_or_id():
    for records, answers in (
        remove(names=["t"]),
        remove(states=[("t", NIL_UUID)]),
        remove(states=[(None, uid(1))]),
    ):
        assert records == [RemoveTopicRecord(topic_id=uid(1))]
        assert answers == [("t", uid(1), ErrorCode.NONE)]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"names": ["u"]}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"states": [(None, uid(9))]}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"states": [(None, NIL_UUID)]}, ErrorCode.INVALID_REQUEST),
        ({"states": [("t", uid(1))]}, ErrorCode.INVALID_REQUEST),
        ({"names": ["t", "t"]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_topic_deletions_are_refused(asked, code):
    records, answers = remove(**asked)
    assert records == []
    assert {answer[2] for answer in answers} == {code}


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_disabled_deletion_is_refused(version, code):
    with pytest.raises(KafkaError) as caught:
        remove(names=["t"], enabled=False, version=version)
    assert caught.value.code is code


def test_ten_thousand_topics_may_be_named_at_once():
    names = [f"n{i}" for i in range(10_001)]
    assert len(remove(names=names[1:])[1]) == 10_000
    with pytest.raises(KafkaError) as caught:
        remove(names=names)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("asked", "sees", "deletes", "answer"),
    [
        (("t", NIL_UUID), True, True, ("t", uid(1), ErrorCode.NONE)),
        (("t", NIL_UUID), True, False, ("t", NIL_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        (("t", NIL_UUID), False, False, ("t", NIL_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        (("u", NIL_UUID), True, False, ("u", NIL_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        (("u", NIL_UUID), False, False, ("u", NIL_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        (("u", NIL_UUID), False, True, ("u", NIL_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        ((None, uid(1)), True, True, ("t", uid(1), ErrorCode.NONE)),
        ((None, uid(1)), True, False, ("t", uid(1), ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        ((None, uid(1)), False, False, (None, uid(1), ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        ((None, uid(9)), False, False, (None, uid(9), ErrorCode.UNKNOWN_TOPIC_ID)),
    ],
)
def test_existence_of_topic_is_hidden_without_describe(asked, sees, deletes, answer):
    """A request by a known id learns that the topic exists, but not its name."""
    rights = {"may_see": lambda _: sees, "may_delete": lambda _: deletes}
    records, answers = remove(states=[asked], **rights)
    assert answers == [answer]
    assert len(records) == (answer[2] is ErrorCode.NONE)


def test_topic_named_by_name_and_id_stays():
    records, answers = remove(states=[("t", NIL_UUID), (None, uid(1))])
    assert records == []
    assert len(answers) == 1  # one answer for the name, as in Kafka


# --- older levels of metadata.version


@pytest.mark.parametrize("level", [7, 16, 17, 23, 30])
def test_topic_is_written_at_every_metadata_version(level):
    """Records from before 3.7-IV2 have no field for directories, and brokers do not report them then."""
    image = image_of(features(level), broker(1, log_dirs=[uid(501)] if level >= 17 else []))
    request = CreateTopicsRequest(topics=[wanted(factor=1)])
    made = at_once(create_topics(request, state_of(image), rules())).records
    after = image_of(*made, base=image)
    snapshot = [
        encode_metadata_record(item, metadata_record_version(type(item), level))
        for item in image_to_records(after)
    ]
    assert image_of(*map(decode_metadata_record, snapshot)) == after
    for item in made:
        encode_metadata_record(item, metadata_record_version(type(item), level))
