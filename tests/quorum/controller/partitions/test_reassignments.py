"""AlterPartitionReassignments and ListPartitionReassignments as decisions (KIP-455, KIP-860)."""

import pytest

from tests.quorum.controller.states import state_of
from tests.quorum.metadata.build import (
    broker,
    change,
    config,
    features,
    image_of,
    partition,
    topic,
    uid,
)
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.partitions.reassignments import (
    alter_reassignments,
    list_reassignments,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

BROKERS = (features(), *(broker(i) for i in range(1, 7)))


def cluster(*records):
    return image_of(*BROKERS, topic("t", 1), *records)


def ask(image, replicas, *, index=0, name="t", any_factor=True):
    """Returns the written records, and the code and message of the response."""
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=any_factor,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
            )
        ],
    )
    result = at_once(alter_reassignments(request, state_of(image)))
    assert result.atomic
    (answer,) = result.response.responses[0].partitions
    return result.records, ErrorCode(answer.error_code), answer.error_message


def moved(image, replicas):
    records, code, _ = ask(image, replicas)
    assert code is ErrorCode.NONE
    return image_of(*records, base=image)


def found(image):
    return image.topics.by_name["t"].partitions[0]


def test_move_begins_with_old_and_added_replicas():
    image = cluster(partition(1, 0, [1, 2, 3]))
    records, code, _ = ask(image, [1, 2, 4])
    assert code is ErrorCode.NONE
    directories = [uid(501), uid(502), uid(504), uid(503)]
    assert records == [
        change(
            1,
            0,
            replicas=[1, 2, 4, 3],
            adding_replicas=[4],
            removing_replicas=[3],
            directories=directories,
        )
    ]
    after = found(image_of(*records, base=image))
    assert (after.leader, after.leader_epoch, after.isr) == (1, 0, (1, 2, 3))


def test_new_replica_order_applies_at_once():
    records, _, _ = ask(cluster(partition(1, 0, [1, 2, 3])), [3, 2, 1])
    assert (records[0].replicas, records[0].leader, records[0].adding_replicas) == (
        [3, 2, 1],
        -2,
        None,
    )


def test_shrinking_completes_at_once_if_remaining_in_sync():
    after = found(moved(cluster(partition(1, 0, [1, 2, 3])), [2, 3]))
    assert (after.replicas, after.isr, after.leader, after.removing) == ((2, 3), (2, 3), 2, ())


def test_unchanged_assignment_moves_nothing():
    assert ask(cluster(partition(1, 0, [1, 2])), [1, 2]) == ([], ErrorCode.NONE, None)


def test_ongoing_move_is_cancelled():
    image = moved(cluster(partition(1, 0, [1, 2, 3])), [4, 5, 6])
    image = image_of(change(1, 0, isr=[1, 2, 3, 4]), base=image)
    after = found(moved(image, None))
    assert (after.replicas, after.isr) == ((1, 2, 3), (1, 2, 3))
    assert (after.adding, after.removing) == ((), ())
    assert after.leader_epoch == 1  # the added replica must stop following
    assert len(after.directories) == 3


@pytest.mark.parametrize("target", [[1, 2, 3, 4], [1, 2]])
def test_one_sided_move_can_be_cancelled(target):
    lagging = cluster(partition(1, 0, [1, 2, 3], isr=[1, 3]))
    after = found(moved(moved(lagging, target), None))
    assert (after.replicas, after.adding, after.removing) == ((1, 2, 3), (), ())


def test_ten_thousand_partitions_may_be_named_at_once():
    def asked(count):
        one = ReassignablePartition(partition_index=0, replicas=[1])
        topics = [ReassignableTopic(name="unknown", partitions=[one] * count)]
        request = AlterPartitionReassignmentsRequest(topics=topics)
        return at_once(alter_reassignments(request, state_of(cluster())))

    assert len(asked(10_000).response.responses[0].partitions) == 10_000
    with pytest.raises(KafkaError) as caught:
        asked(10_001)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_new_move_replaces_ongoing_one():
    image = moved(cluster(partition(1, 0, [1, 2, 3])), [1, 2, 4])
    after = found(moved(image, [1, 2, 5]))
    assert (after.replicas, after.adding, after.removing) == ((1, 2, 5, 3, 4), (5,), (3, 4))


def test_replica_kept_from_earlier_move_remains_added():
    image = moved(cluster(partition(1, 0, [1, 2, 3])), [1, 2, 4])
    after = found(moved(image, [1, 4, 5]))
    assert (after.adding, after.removing) == ((4, 5), (2, 3))


def test_move_to_original_replicas_ends_the_move():
    image = moved(cluster(partition(1, 0, [1, 2, 3])), [1, 2, 4])
    after = found(moved(image, [1, 2, 3]))
    assert (after.replicas, after.adding, after.removing) == ((1, 2, 3), (), ())


def test_cancellation_may_need_an_unclean_leader():
    image = cluster(partition(1, 0, [4, 1, 2], isr=[4], leader=4, adding=[4], removing=[1, 2]))
    records, code, text = ask(image, None)
    assert (records, code) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert "unclean leader election" in text
    image = image_of(config("unclean.leader.election.enable", "true"), base=image)
    after = found(moved(image, None))
    assert (after.replicas, after.isr, after.leader) == ((1, 2), (1,), 1)


@pytest.mark.parametrize(
    ("replicas", "more", "code"),
    [
        ([1], {"name": "u"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, -5], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1], {"any_factor": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_invalid_reassignments_are_refused(replicas, more, code):
    records, answered, _ = ask(cluster(partition(1, 0, [1, 2])), replicas, **more)
    assert (records, answered) == ([], code)


def test_replication_factor_of_ongoing_move_is_its_target():
    image = moved(cluster(partition(1, 0, [1, 2])), [3, 4])
    assert ask(image, [5, 6], any_factor=False)[1] is ErrorCode.NONE
    assert ask(image, [5, 6, 1], any_factor=False)[1] is ErrorCode.INVALID_REPLICATION_FACTOR


def test_partition_named_twice_is_moved_once():
    wish = ReassignablePartition(partition_index=0, replicas=[3, 4])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[wish, wish])]
    )
    result = at_once(alter_reassignments(request, state_of(cluster(partition(1, 0, [1, 2])))))
    codes = [partition.error_code for partition in result.response.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert len(result.records) == 1


def test_more_than_10000_partitions_are_refused():
    """C5."""
    wishes = [ReassignablePartition(partition_index=i, replicas=None) for i in range(10_001)]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=wishes)]
    )
    with pytest.raises(KafkaError) as caught:
        at_once(alter_reassignments(request, state_of(cluster())))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def listed(request, state):
    return at_once(list_reassignments(request, state)).response


@pytest.mark.parametrize("under_way", [{"adding": [3]}, {"removing": [2]}])
def test_one_sided_move_is_listed(under_way):
    state = state_of(cluster(partition(1, 0, [1, 2, 3], **under_way)))
    (one,) = listed(ListPartitionReassignmentsRequest(topics=None), state).topics
    assert [ongoing.partition_index for ongoing in one.partitions] == [0]


def test_ongoing_moves_are_listed():
    image = cluster(partition(1, 0, [1, 2, 3], adding=[3], removing=[2]), partition(1, 1, [1, 2]))
    state = state_of(image)
    everything = listed(ListPartitionReassignmentsRequest(topics=None), state)
    named = ListPartitionReassignmentsRequest(
        topics=[
            ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 0, 1, 9]),
            ListPartitionReassignmentsTopics(name="u", partition_indexes=[0]),
        ]
    )
    assert listed(named, state) == everything
    (one,) = everything.topics
    (ongoing,) = one.partitions
    assert (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas) == (
        [1, 2, 3],
        [3],
        [2],
    )
