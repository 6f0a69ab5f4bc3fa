"""Exchanges of commands about features, voters, racks and reassignments, and about partitions and groups to change."""

from pathlib import Path

from tests.trimaran.client.answers import UUID
from tests.trimaran.client.scripted import S, T, told, topic
from tests.trimaran.client.transcripts import Cases, exchange, exchanges
from trimaran.client import (
    brokers,
    changes,
    configs,
    features,
    partitions,
    quorum,
    quorum_voters,
    reassignments,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages import (
    add_raft_voter,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    delete_groups,
    describe_cluster,
    list_config_resources,
    list_partition_reassignments,
    remove_raft_voter,
    unregister_controller,
    update_features,
)

case = Cases()
DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_exchanges_about_nodes_are_as_written():
    case.check(Path(__file__).parent / "testdata/nodes.txt")


@case
def _feature_rows():
    def supported(name, low, high):
        return api_versions.SupportedFeatureKey(name=name, min_version=low, max_version=high)

    def finalized(name, level):
        return api_versions.FinalizedFeatureKey(
            name=name, max_version_level=level, min_version_level=level
        )

    answer = api_versions.ApiVersionsResponse(
        api_keys=[],
        supported_features=[supported("share.version", 0, 2), supported("metadata.version", 7, 33)],
        finalized_features=[finalized("metadata.version", 29), finalized("group.version", 1)],
    )
    return exchange(features.feature_rows, answer)


@case
def _update_features():
    def answer(*codes, code=0, message=None):
        results = [
            update_features.UpdatableFeatureResult(feature="f", error_code=c, error_message="why")
            for c in codes
        ]
        return update_features.UpdateFeaturesResponse(
            error_code=code, error_message=message, results=results
        )

    wanted = [("metadata.version", 33), ("share.version", 0)]

    def update(kind, **options):
        return lambda client: features.update_features(client, wanted, kind, **options)

    invalid = ErrorCode.INVALID_UPDATE_VERSION
    return exchanges(
        exchange(update(features.UPGRADE), answer(0, 0)),
        exchange(update(features.SAFE_DOWNGRADE, validate_only=True), answer()),
        exchange(update(features.UNSAFE_DOWNGRADE), answer(0, invalid)),
        exchange(update(features.UPGRADE), answer(code=invalid, message="all or none")),
    )


@case
def _resource_rows():
    def listed(*resources, code=0):
        return list_config_resources.ListConfigResourcesResponse(
            error_code=code,
            config_resources=[
                list_config_resources.ConfigResource(resource_name=name, resource_type=kind)
                for kind, name in resources
            ],
        )

    found = listed((2, "t"), (16, "z"), (16, "m"))
    return exchanges(
        exchange(lambda client: configs.resource_rows(client, [16]), found),
        exchange(lambda client: configs.resource_rows(client, [2, 16]), found),
        exchange(
            lambda client: configs.resource_rows(client, [16]),
            listed(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ),
    )


@case
def _voters():
    listeners = [quorum_voters.VoterListener("C", "h", 1), quorum_voters.VoterListener("D", "i", 2)]

    def add(client):
        return quorum_voters.add_voter(client, "c", 4, UUID, listeners)

    def remove(client):
        return quorum_voters.remove_voter(client, 4, UUID)

    def unregister(client):
        return quorum_voters.unregister(client, 4)

    missing = remove_raft_voter.RemoveRaftVoterResponse(
        error_code=ErrorCode.VOTER_NOT_FOUND, error_message="4"
    )
    return exchanges(
        exchange(add, add_raft_voter.AddRaftVoterResponse()),
        exchange(remove, remove_raft_voter.RemoveRaftVoterResponse()),
        exchange(remove, missing),
        exchange(
            unregister, unregister_controller.UnregisterControllerResponse(error_message=None)
        ),
    )


def cluster(*ones, code=0, message=None):
    found = [
        describe_cluster.DescribeClusterBroker(broker_id=n, host="h", port=n, rack=rack)
        for n, rack in ones
    ]
    return describe_cluster.DescribeClusterResponse(
        error_code=code, error_message=message, cluster_id="c", brokers=found
    )


@case
def _ensure_registered():
    return exchanges(
        *(
            exchange(lambda client: quorum_voters.ensure_registered(client, 4), answer)
            for answer in (
                cluster((3, None), (4, None)),
                cluster((3, None)),
                cluster(code=DENIED, message="not you"),
            )
        )
    )


@case
def _cluster_id_of():
    return exchanges(
        *(
            exchange(
                lambda client, one=each: quorum.cluster_id_of(client, of_controllers=one), cluster()
            )
            for each in (True, False)
        )
    )


@case
def _racks_of():
    return exchanges(
        exchange(brokers.racks_of, cluster((2, "r"), (1, None))),
        exchange(brokers.racks_of, cluster(code=DENIED, message="not you")),
    )


@case
def _reassignment_rows():
    def answer(*moves, code=0, message=None):
        ongoing = [
            list_partition_reassignments.OngoingPartitionReassignment(
                partition_index=n, replicas=[1, 2, 3], adding_replicas=[n], removing_replicas=[1]
            )
            for n in moves
        ]
        topics = [
            list_partition_reassignments.OngoingTopicReassignment(name="t", partitions=ongoing)
        ]
        return list_partition_reassignments.ListPartitionReassignmentsResponse(
            error_code=code, error_message=message, topics=topics
        )

    return exchanges(
        exchange(reassignments.reassignment_rows, answer(2, 3)),
        exchange(reassignments.reassignment_rows, answer(code=DENIED, message="not you")),
    )


@case
def _alter_reassignments():
    def answer(*results, code=0, message=None):
        ones = [
            alter_partition_reassignments.ReassignablePartitionResponse(
                partition_index=n, error_code=c, error_message=m
            )
            for n, (c, m) in enumerate(results)
        ]
        of_topic = alter_partition_reassignments.ReassignableTopicResponse(
            name="t", partitions=ones
        )
        return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
            error_code=code, error_message=message, responses=[of_topic]
        )

    wishes = {
        TopicPartition("t", 0): (1, 2),
        TopicPartition("s", 1): [3],
        TopicPartition("t", 1): None,
    }
    results = [
        (0, None),
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no broker 9"),
        (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
    ]
    alter = lambda client: reassignments.alter_reassignments(client, wishes)  # noqa: E731
    return exchanges(
        exchange(alter, answer(*results)),
        exchange(alter, answer(code=DENIED, message="not you")),
    )


@case
def _topic_of():
    unknown = topic("t", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    found = lambda client: partitions.topic_of(client, "s").name  # noqa: E731
    return exchanges(
        exchange(found, told(S)),
        exchange(found, told(unknown)),
        exchange(found, told(topic("s", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))),
        exchange(lambda _: partitions.replicas_of([T, S])),
    )


@case
def _create_partitions():
    def answer(code=0, message=None):
        result = create_partitions.CreatePartitionsTopicResult(
            name="t", error_code=code, error_message=message
        )
        return create_partitions.CreatePartitionsResponse(results=[result])

    def create(**options):
        return lambda client: changes.create_partitions(client, "t", 5, **options)

    return exchanges(
        exchange(create(), answer()),
        exchange(create(validate_only=True), answer(ErrorCode.INVALID_PARTITIONS, "it has 5")),
        exchange(create(), answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
    )


@case
def _delete_group():
    def answer(code=0, message=None):
        result = delete_groups.DeletableGroupResult(
            group_id="g", error_code=code, error_message=message
        )
        return delete_groups.DeleteGroupsResponse(results=[result])

    delete = lambda client: changes.delete_group(client, "g")  # noqa: E731
    return exchanges(
        exchange(delete, answer()),
        exchange(delete, answer(ErrorCode.NON_EMPTY_GROUP)),
        exchange(delete, answer(ErrorCode.GROUP_ID_NOT_FOUND)),
        exchange(delete, answer(ErrorCode.GROUP_AUTHORIZATION_FAILED)),
    )
