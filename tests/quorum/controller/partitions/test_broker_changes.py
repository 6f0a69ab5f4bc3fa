"""Elections, ISR changes and AlterPartition, rule by rule."""

import pytest

from tests.quorum.controller.states import state_of
from tests.quorum.metadata.build import (
    broker,
    change,
    changed_broker,
    features,
    image_of,
    partition,
    replay,
    topic,
    uid,
)
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.partitions.alter_partition import alter_partition
from trimaran.quorum.controller.partitions.broker_changes import changes_with, changes_without
from trimaran.quorum.controller.partitions.elections import balance_leaders, elect_leaders
from trimaran.quorum.metadata.image import LOST_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from trimaran.wire.records.brokers import UnregisterBrokerRecord

BROKERS = (features(), broker(1), broker(2), broker(3))


def cluster(*records):
    return image_of(*BROKERS, topic("t", 1), *records)


def after(image, records):
    return image_of(*records, base=image).topics.by_name["t"].partitions


# --- brokers that leave and return


def test_partition_with_a_leader_gets_no_other():
    """The leader has been elected since the task listed the partitions; the shutdown of its broker will move the
    leadership.
    """
    image = cluster(changed_broker(1, in_controlled_shutdown=1), partition(1, 0, [1, 2]))
    assert changes_with(state_of(image), keys=[TopicIdPartition(uid(1), 0)]) == []
    assert changes_without(state_of(image), 1) == [change(1, 0, isr=[2], leader=2)]


def test_departing_follower_leaves_isr_without_new_epoch():
    image = cluster(partition(1, 0, [1, 2, 3]))
    (record,) = changes_without(state_of(image), 3)
    assert record == change(1, 0, isr=[1, 2])
    found = after(image, [record])[0]
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (1, 0, 1)


def test_departing_leader_is_succeeded_by_first_isr_member():
    image = cluster(partition(1, 0, [1, 2, 3], isr=[1, 3]))
    (record,) = changes_without(state_of(image), 1)
    assert record == change(1, 0, isr=[3], leader=3)
    assert after(image, [record])[0].leader_epoch == 1


def test_last_isr_member_stays_without_a_leader():
    image = cluster(partition(1, 0, [1, 2, 3], isr=[1]))
    (record,) = changes_without(state_of(image), 1)
    assert record == change(1, 0, leader=-1)
    assert after(image, [record])[0].isr == (1,)


def test_out_of_sync_replica_is_not_elected():
    """Only clean elections, P5: 2 and 3 are alive, but lack records of 1."""
    image = image_of(changed_broker(1, fenced=1), base=cluster(partition(1, 0, [1, 2, 3], isr=[1])))
    (record,) = changes_without(state_of(image), 1)
    assert record.leader == -1
    assert changes_with(state_of(image_of(record, base=image)), 2) == []


def test_returning_broker_leads_its_in_sync_partitions():
    image = cluster(changed_broker(1, fenced=1), partition(1, 0, [1, 2], isr=[1], leader=-1))
    assert changes_with(state_of(image), 1) == [change(1, 0, leader=1)]


def test_a_fenced_broker_is_no_successor():
    image = cluster(changed_broker(2, fenced=1), partition(1, 0, [1, 2, 3]))
    (record,) = changes_without(state_of(image), 1)
    assert record.leader == 3


def test_stopping_broker_is_no_successor():
    image = cluster(changed_broker(2, in_controlled_shutdown=1), partition(1, 0, [1, 2, 3]))
    assert changes_without(state_of(image), 1)[0].leader == 3


def test_unregistered_broker_is_no_successor():
    gone = UnregisterBrokerRecord(broker_id=2, broker_epoch=102)
    image = cluster(gone, partition(1, 0, [1, 2, 3]))
    assert changes_without(state_of(image), 1)[0].leader == 3


@pytest.mark.parametrize("directory", [LOST_DIRECTORY, uid(999)])
def test_replica_in_offline_directory_is_no_successor(directory):
    image = cluster(partition(1, 0, [1, 2, 3], directories=[uid(501), directory, uid(503)]))
    assert changes_without(state_of(image), 1)[0].leader == 3


def test_failed_directory_affects_only_its_partitions():
    image = cluster(
        partition(1, 0, [1, 2]), partition(1, 1, [1, 2], directories=[uid(77), uid(502)])
    )
    (record,) = changes_without(state_of(image), 1, uid(501))
    assert record.partition_id == 0


def test_leaderless_partition_loses_departing_isr_member():
    image = cluster(
        *(changed_broker(i, fenced=1) for i in (1, 2)), partition(1, 0, [1, 2], leader=-1)
    )
    assert changes_without(state_of(image), 2) == [change(1, 0, isr=[1])]


def test_partitions_of_other_brokers_are_unchanged():
    image = cluster(partition(1, 0, [1, 2]), partition(1, 1, [1, 2, 3], isr=[1], leader=-1))
    state = state_of(image)
    assert changes_without(state, 3) == []
    listed_before_it_left = [(uid(1), 0), (uid(1), 1)]
    assert changes_without(state, 3, keys=listed_before_it_left) == []


def test_leaders_return_to_available_preferred_replicas():
    image = cluster(
        partition(1, 0, [1, 2], leader=2),
        partition(1, 1, [1, 2], isr=[2], leader=2),
        partition(1, 2, [2, 1]),
        partition(1, 3, [1, 3], leader=3),
    )
    state = state_of(image)
    assert len(state.index.imbalanced) == 3
    assert balance_leaders(state, state.index.imbalanced) == [
        change(1, 0, leader=1),
        change(1, 3, leader=1),
    ]


# --- AlterPartition


def proposal(
    isr,
    *,
    number=1,
    index=0,
    leader_epoch=0,
    partition_epoch=0,
    epochs=True,
    state=0,
    who=1,
    epoch=101,
):
    states = [
        BrokerState(broker_id=replica, broker_epoch=100 + replica if epochs else -1)
        for replica in isr
    ]
    data = AlterPartitionRequestPartitionData(
        partition_index=index,
        leader_epoch=leader_epoch,
        new_isr_with_epochs=states,
        leader_recovery_state=state,
        partition_epoch=partition_epoch,
    )
    topics = [AlterPartitionRequestTopicData(topic_id=uid(number), partitions=[data])]
    return AlterPartitionRequest(broker_id=who, broker_epoch=epoch, topics=topics)


def code_of(request, image):
    result = at_once(alter_partition(request, state_of(image)))
    assert not result.records
    return ErrorCode(result.response.topics[0].partitions[0].error_code)


def test_an_isr_shrinks_and_grows():
    image = cluster(partition(1, 0, [1, 2, 3]))
    result = at_once(alter_partition(proposal([1, 2]), state_of(image)))
    assert result.records == [change(1, 0, isr=[1, 2])]
    answer = result.response.topics[0].partitions[0]
    assert (answer.error_code, answer.isr, answer.leader_epoch, answer.partition_epoch) == (
        0,
        [1, 2],
        0,
        1,
    )
    image = image_of(*result.records, base=image)
    result = at_once(alter_partition(proposal([1, 2, 3], partition_epoch=1), state_of(image)))
    assert after(image, result.records)[0].isr == (1, 2, 3)


def test_isr_proposal_of_version_2_is_accepted():
    image = cluster(partition(1, 0, [1, 2]))
    request = proposal([])
    request.topics[0].partitions[0].new_isr = [1]
    assert at_once(alter_partition(request, state_of(image))).records == [change(1, 0, isr=[1])]


def test_unchanged_isr_writes_nothing():
    result = at_once(alter_partition(proposal([1, 2]), state_of(cluster(partition(1, 0, [1, 2])))))
    assert result.records == []
    assert result.response.topics[0].partitions[0].error_code == 0


def test_two_proposals_for_one_partition_see_each_other():
    request = proposal([1, 2])
    request.topics[0].partitions.append(request.topics[0].partitions[0].replace())
    first, second = (
        at_once(alter_partition(request, state_of(cluster(partition(1, 0, [1, 2, 3])))))
        .response.topics[0]
        .partitions
    )
    assert (first.error_code, second.error_code) == (0, ErrorCode.INVALID_UPDATE_VERSION)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (proposal([1, 2], number=9), ErrorCode.UNKNOWN_TOPIC_ID),
        (proposal([1, 2], index=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        # P12: a requester ahead of us knows a later controller; one behind us is fenced
        (proposal([1, 2], leader_epoch=6, partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (proposal([1, 2], leader_epoch=5, partition_epoch=9), ErrorCode.NOT_CONTROLLER),
        (proposal([1, 2], leader_epoch=4, partition_epoch=8), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal([1, 2], leader_epoch=5, partition_epoch=7), ErrorCode.INVALID_UPDATE_VERSION),
        (
            proposal([1, 2], leader_epoch=5, partition_epoch=8, who=2, epoch=102),
            ErrorCode.INVALID_REQUEST,
        ),
        (proposal([2, 3], leader_epoch=5, partition_epoch=8), ErrorCode.INVALID_REQUEST),
        (proposal([], leader_epoch=5, partition_epoch=8), ErrorCode.INVALID_REQUEST),  # KAFKA-15353
        (proposal([1, 1], leader_epoch=5, partition_epoch=8), ErrorCode.INVALID_REQUEST),
        (proposal([1, 4], leader_epoch=5, partition_epoch=8), ErrorCode.INVALID_REQUEST),
        (proposal([1], leader_epoch=5, partition_epoch=8, state=1), ErrorCode.INVALID_REQUEST),
        (proposal([1], leader_epoch=5, partition_epoch=8, state=7), ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_proposals_are_refused(request_, code):
    image = cluster(partition(1, 0, [1, 2, 3], leader_epoch=5, partition_epoch=8))
    assert code_of(request_, image) is code


@pytest.mark.parametrize(
    "news",
    [
        changed_broker(2, fenced=1),
        changed_broker(2, in_controlled_shutdown=1),
        broker(2, epoch=777),  # KAFKA-14139: it has restarted, perhaps with an empty disk
        UnregisterBrokerRecord(broker_id=2, broker_epoch=102),
    ],
)
def test_ineligible_replica_does_not_join(news):
    image = image_of(news, base=cluster(partition(1, 0, [1, 2], isr=[1])))
    assert code_of(proposal([1, 2]), image) is ErrorCode.INELIGIBLE_REPLICA


def test_refusal_contains_only_its_code():
    answers = at_once(alter_partition(proposal([1], index=9), state_of(cluster()))).response
    assert answers.topics[0].partitions == [
        AlterPartitionResponsePartitionData(
            partition_index=9,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            leader_id=0,
            leader_epoch=0,
            isr=[],
            partition_epoch=0,
        )
    ]


def test_leader_losing_leadership_by_proposal_is_informed():
    """The move that removes it is complete: the change is made, and another broker leads."""
    moving = partition(1, 0, [2, 3, 1], isr=[1, 2], leader=1, adding=[3], removing=[1])
    result = at_once(alter_partition(proposal([1, 2, 3]), state_of(cluster(moving))))
    assert [record.leader for record in result.records] == [2]
    (answer,) = result.response.topics[0].partitions
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED


def test_proposals_of_many_partitions_may_span_batches():
    """The leader of tens of thousands of partitions proposes changes to all of them when a follower fails."""
    result = at_once(alter_partition(proposal([1]), state_of(cluster(partition(1, 0, [1, 2])))))
    assert not result.atomic


def test_versions_without_epochs_check_only_state():
    image = image_of(broker(2, epoch=777), base=cluster(partition(1, 0, [1, 2], isr=[1])))
    assert at_once(alter_partition(proposal([1, 2], epochs=False), state_of(image))).records


def test_request_of_another_leader_incarnation_is_refused():
    with pytest.raises(KafkaError) as caught:
        at_once(alter_partition(proposal([1], epoch=7), state_of(cluster(partition(1, 0, [1, 2])))))
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_recovery_ends_with_first_recovered_proposal():
    image = cluster(partition(1, 0, [1, 2], isr=[1], leader_recovery_state=1))
    result = at_once(alter_partition(proposal([1]), state_of(image)))
    assert after(image, result.records)[0].leader_recovery_state == 0
    assert code_of(proposal([1, 2], state=1), image) is ErrorCode.INVALID_REQUEST
    assert code_of(proposal([1], state=1), image) is ErrorCode.NONE, "it goes on recovering"


# --- ElectLeaders


def ask(image, *, kind=0, partitions=None):
    asked = None if partitions is None else [TopicPartitions(topic="t", partitions=partitions)]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
    result = at_once(elect_leaders(request, state_of(image)))
    assert not result.atomic, "each by itself"
    answers = {
        partition.partition_id: ErrorCode(partition.error_code)
        for named in result.response.replica_election_results
        for partition in named.partition_result
    }
    return result.records, answers


def test_preferred_leaders_are_elected_where_they_can_lead():
    image = cluster(
        partition(1, 0, [1, 2], leader=2),
        partition(1, 1, [1, 2]),
        partition(1, 2, [3, 2], isr=[2], leader=2),
    )
    records, answers = ask(image, partitions=[0, 1, 2, 9])
    assert records == [change(1, 0, leader=1)]
    assert answers == {
        0: ErrorCode.NONE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    records, answers = ask(image)
    assert sorted(answers) == [0, 2]


def test_operator_can_request_unclean_election():
    image = cluster(changed_broker(1, fenced=1), partition(1, 0, [1, 2], isr=[1], leader=-1))
    elected = change(1, 0, isr=[2], leader=2, leader_recovery_state=1)
    assert ask(image, kind=1, partitions=[0]) == ([elected], {0: ErrorCode.NONE})


def test_unclean_election_needs_a_live_replica():
    image = cluster(changed_broker(1, fenced=1), partition(1, 0, [1], isr=[1], leader=-1))
    assert ask(image, kind=1, partitions=[0]) == ([], {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE})


def test_ten_thousand_leaders_may_be_elected_at_once():
    wanting = [partition(1, index, [1, 2], leader=2) for index in range(10_001)]
    records, _ = ask(cluster(*wanting[1:]))
    assert len(records) == 10_000
    with pytest.raises(KafkaError) as caught:
        ask(cluster(*wanting))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_unknown_election_type_is_refused():
    with pytest.raises(KafkaError):
        ask(cluster(), kind=7)


def test_records_of_a_decision_can_be_replayed():
    image = cluster(partition(1, 0, [1, 2, 3]), partition(1, 1, [3, 1, 2]))
    delta = replay([*changes_without(state_of(image), 1), changed_broker(1, fenced=1)], image)
    assert all(
        1 not in p.isr and p.leader != 1 for p in delta.topics.changed[uid(1)].partitions.values()
    )


def test_replica_with_failed_directory_stays_outside_isr():
    """The leader saw the replica in sync before the directory failed."""
    lost = partition(1, 0, [1, 2], isr=[1], directories=[uid(501), LOST_DIRECTORY])
    image = cluster(lost)
    proposal = AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=0,
        partition_epoch=0,
        new_isr_with_epochs=[BrokerState(broker_id=1), BrokerState(broker_id=2)],
    )
    topics = [AlterPartitionRequestTopicData(topic_id=uid(1), partitions=[proposal])]
    broker_epoch = image.cluster.brokers[1].epoch
    request = AlterPartitionRequest(broker_id=1, broker_epoch=broker_epoch, topics=topics)
    result = at_once(alter_partition(request, state_of(image)))
    assert result.records == []
    [[answer]] = [topic.partitions for topic in result.response.topics]
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA


def test_returning_broker_leads_nothing_in_missing_directory():
    gone = partition(1, 0, [1], leader=-1, directories=[uid(777)])
    here = partition(1, 1, [1], leader=-1, directories=[uid(501)])
    (record,) = changes_with(state_of(cluster(gone, here)), 1)
    assert (record.partition_id, record.leader) == (1, 1)
