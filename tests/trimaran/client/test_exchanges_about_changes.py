"""Exchanges of commands about ACLs, brokers and configs, and of all commands that change state: each request with all
its fields, each row with all its columns, each error with its three lines and its exit code.
"""

from pathlib import Path

from tests.trimaran.client.answers import (
    UUID,
    config,
    described_configs,
    listed,
)
from tests.trimaran.client.scripted import S, T
from tests.trimaran.client.transcripts import Cases, exchange, exchanges
from trimaran.client import (
    acls,
    brokers,
    changes,
    configs,
)
from trimaran.quorum.metadata.acls import Acl
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages import (
    create_topics,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
    offset_commit,
)

case = Cases()


def test_exchanges_about_changes_are_as_written():
    case.check(Path(__file__).parent / "testdata/changes.txt")


def described_acls(*resources, code=0, message=None):
    return describe_acls.DescribeAclsResponse(
        error_code=code, error_message=message, resources=list(resources)
    )


def acls_of_resource(name, *principals):
    ones = [
        describe_acls.AclDescription(principal=principal, host="h", operation=3, permission_type=2)
        for principal in principals
    ]
    return describe_acls.DescribeAclsResource(
        resource_type=2, resource_name=name, pattern_type=4, acls=ones
    )


@case
def _acls_of():
    answer = described_acls(acls_of_resource("z", "User:b"), acls_of_resource("a", "User:c", "U:a"))
    refused = described_acls(code=ErrorCode.SECURITY_DISABLED, message="no authorizer")
    pattern = acls.parse_pattern("group/readers-*")
    return exchanges(
        exchange(lambda client: acls.acls_of(client, pattern, "User:a"), answer),
        exchange(lambda client: acls.acls_of(client, None, None), described_acls()),
        exchange(lambda client: acls.acls_of(client, None, None), refused),
    )


PATTERNS = [
    *("topic/orders", "topic/orders-*", "topic/*", "TOPIC/a/b", "group/g", "transactional_id/x"),
    *("transactional-id/x", "delegation-token/t", "user/u", "cluster", "CLUSTER", "cluster/x"),
    *("cluster/", "topic", "topic/", "any/x", "unknown/x", "", "/x", "match/x"),
]


@case
def _parse_pattern():
    return exchanges(
        *(exchange(lambda _, one=pattern: acls.parse_pattern(one)) for pattern in PATTERNS)
    )


@case
def _parse_operations():
    texts = ["read", "Read, WRITE", "describe-configs,describe_configs", "all", "any", "unknown"]
    texts += ["read,", "write,nothing", ""]
    return exchanges(*(exchange(lambda _, one=text: acls.parse_operations(one)) for text in texts))


@case
def _acl_row():
    rows = [
        Acl(kind, name, pattern, "User:a", "h", operation, permission)
        for kind, name, pattern, operation, permission in (
            (2, "t", 3, 3, 3),
            (2, "t", 4, 10, 2),
            (4, "kafka-cluster", 3, 12, 3),
            (5, "x", 3, 2, 3),
            (99, "x", 3, 99, 99),
        )
    ]
    return exchanges(*(exchange(lambda _, one=row: acls.acl_row(one)) for row in rows))


@case
def _verdict_of():
    from trimaran.quorum.metadata.authorizer import Action
    from trimaran.wire.security.acls import Operation, ResourceType

    rules = [Acl(2, "t", 3, "User:a", "*", Operation.READ, 3)]
    asked = [("User:a", "t"), ("User:b", "t"), ("User:a", "u")]
    return exchanges(
        *(
            exchange(
                lambda _, who=who, name=name: acls.verdict_of(
                    rules, who, "h", Action(ResourceType.TOPIC, name, Operation.READ)
                )
            )
            for who, name in asked
        )
    )


@case
def _sets_more_rules():
    rule = config("super.users", None, 4, is_sensitive=True)
    denied = described_configs(kind=4, name="1", code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def asked(client):
        return acls.sets_more_rules(client), client.refreshed

    return exchanges(
        exchange(asked, described_configs(rule, kind=4, name="1")),
        exchange(acls.sets_more_rules, described_configs(kind=4, name="1")),
        exchange(acls.sets_more_rules, denied),
    )


# --- brokers, configs


@case
def _broker_rows():
    def broker(number, host, *, fenced=False, rack=None):
        return describe_cluster.DescribeClusterBroker(
            broker_id=number, host=host, port=9000 + number, rack=rack, is_fenced=fenced
        )

    def answer(code=0, message=None):
        ones = [broker(3, "", fenced=True), broker(1, "a", rack="r"), broker(2, "b")]
        return describe_cluster.DescribeClusterResponse(
            error_code=code, error_message=message, cluster_id="c", brokers=ones
        )

    refused = answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
    return exchanges(
        exchange(lambda client: brokers.broker_rows(client, [T, S]), answer()),
        exchange(lambda client: brokers.broker_rows(client, [S]), answer()),
        exchange(lambda client: brokers.broker_rows(client, []), refused),
    )


@case
def _config_rows():
    synonyms = [
        describe_configs.DescribeConfigsSynonym(name=f"s{source}", value="1", source=source)
        for source in range(10)
    ]
    every = [config(f"k{9 - source}", f"v{source}", source) for source in range(10)]
    secret = config("secret", "hunter2", 2, is_sensitive=True, read_only=True, synonyms=synonyms)
    answer = described_configs(*every, secret, kind=4, name="1")
    return exchange(lambda client: configs.config_rows(client, 4, "1", 1, ["a"]), answer)


@case
def _told_configs():
    def of(kind):
        return lambda client: configs.reported_configs(client, kind, ["t"])

    return exchanges(
        exchange(of(2), described_configs(config("a", "1"))),
        exchange(of(2), described_configs(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        exchange(of(4), described_configs(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="m")),
        exchange(of(2), described_configs(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        exchange(of(2), described_configs(name="u")),
        exchange(of(2), describe_configs.DescribeConfigsResponse(results=[])),
    )


# --- changes


@case
def _create_topic():
    def answer(code=0, message=None):
        result = create_topics.CreatableTopicResult(
            name="t", topic_id=UUID, error_code=code, error_message=message
        )
        return create_topics.CreateTopicsResponse(topics=[result])

    def whole(client):
        settings = {"a": "1", "b": "2"}
        return changes.create_topic(client, "t", 3, 2, settings, validate_only=True, timeout_ms=7)

    plain = lambda client: changes.create_topic(client, "t")  # noqa: E731
    return exchanges(
        exchange(whole, answer()),
        exchange(plain, answer()),
        exchange(plain, answer(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there")),
        exchange(plain, create_topics.CreateTopicsResponse(topics=[])),
    )


@case
def _delete_topic():
    def answer(code=0, message=None):
        result = delete_topics.DeletableTopicResult(
            name="t", error_code=code, error_message=message
        )
        return delete_topics.DeleteTopicsResponse(responses=[result])

    delete = lambda client: changes.delete_topic(client, "t")  # noqa: E731
    return exchanges(
        exchange(delete, answer()),
        exchange(lambda client: changes.delete_topic(client, "t", timeout_ms=7), answer()),
        exchange(delete, answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        exchange(delete, answer(ErrorCode.TOPIC_DELETION_DISABLED)),
        exchange(delete, answer(ErrorCode.TOPIC_DELETION_DISABLED, "not here")),
    )


@case
def _alter_configs():
    def answer(code=0, message=None):
        result = incremental_alter_configs.AlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=2, resource_name="t"
        )
        return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[result])

    wanted = [
        ("a", changes.SET, "1"),
        ("b", changes.DELETE, None),
        ("c", changes.APPEND, "x"),
        ("d", changes.SUBTRACT, "y"),
    ]

    def of(kind, **options):
        return lambda client: changes.alter_configs(client, kind, "t", wanted, **options)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return exchanges(
        exchange(of(4, node=3, validate_only=True), answer()),
        exchange(of(2), answer()),
        exchange(of(2), answer(unknown)),
        exchange(of(4), answer(unknown, "m")),
        exchange(of(2), answer(ErrorCode.INVALID_CONFIG, "no")),
    )


@case
def _elect_leaders():
    def answer(*results, code=0):
        ones = [
            elect_leaders.PartitionResult(partition_id=n, error_code=c, error_message=m)
            for n, (c, m) in enumerate(results)
        ]
        of_topic = elect_leaders.ReplicaElectionResult(topic="t", partition_result=ones)
        return elect_leaders.ElectLeadersResponse(
            error_code=code, replica_election_results=[of_topic]
        )

    every = [
        (0, None),
        (ErrorCode.ELECTION_NOT_NEEDED, None),
        (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is down"),
        (ErrorCode.NOT_CONTROLLER, None),
    ]
    named = {"t": [0, 1]}
    refused = answer(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return exchanges(
        exchange(lambda client: changes.elect_leaders(client, None), answer(*every)),
        exchange(lambda client: changes.elect_leaders(client, named, unclean=True), answer()),
        exchange(lambda client: changes.elect_leaders(client, None), refused),
    )


@case
def _commit_offsets():
    def answer(*codes):
        ones = [
            offset_commit.OffsetCommitResponsePartition(partition_index=n, error_code=code)
            for n, code in enumerate(codes)
        ]
        topics_ = [offset_commit.OffsetCommitResponseTopic(name="t", partitions=ones)]
        return offset_commit.OffsetCommitResponse(topics=topics_)

    wanted = {("t", 0): 5, ("s", 2): 6, ("t", 1): 7}
    commit = lambda client: changes.commit_offsets(client, "g", wanted)  # noqa: E731
    busy = ["NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "NOT_COORDINATOR"]
    return exchanges(
        exchange(commit, answer(0, 0)),
        exchange(lambda client: changes.commit_offsets(client, "g", {})),
        *(exchange(commit, answer(0, ErrorCode[name])) for name in busy),
    )


@case
def _within_log():
    def of(offset):
        return lambda client: changes.within_log(client, TopicPartition("t", 1), offset)

    return exchanges(*(exchange(of(count), listed(3), listed(9)) for count in (2, 3, 5, 9, 10)))
