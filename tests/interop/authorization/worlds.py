"""The data of both nodes: topics, groups and transactions, and sets of ACLs drawn at random."""

from tests.interop.authorization.making import make
from tests.interop.authorization.peers import eventually
from tests.interop.authorization.requests import BY_NAME, GROUPS, TOPICS, TRANSACTIONS
from trimaran.quorum.metadata.acls import Acl
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION, TOKEN, USER = (
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.USER,
)
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
O = Operation  # noqa: E741
PATTERNS = {
    TOPIC: ("orders", "orders-eu", "secret", "nowhere", "new", "*", "ord", "orders-", "s", "no"),
    GROUP: ("readers", "readers-2", "ghosts", "modern", "*", "read", "g"),
    TRANSACTION: ("tx", "tx-2", "nothing", "*", "t"),
    CLUSTER: (CLUSTER_NAME,),
    TOKEN: ("*",),
    USER: ("User:bob", "User:root", "*"),
}
OPERATIONS = {
    TOPIC: (O.ALL, *range(O.READ, O.CLUSTER_ACTION), O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    GROUP: (O.ALL, O.READ, O.DELETE, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    TRANSACTION: (O.ALL, O.WRITE, O.DESCRIBE),
    CLUSTER: (O.ALL, *range(O.CREATE, O.CREATE_TOKENS)),
    TOKEN: (O.ALL, O.DESCRIBE),
    USER: (O.ALL, O.CREATE_TOKENS, O.DESCRIBE_TOKENS),
}
KINDS = (TOPIC,) * 6 + (GROUP,) * 4 + (CLUSTER,) * 3 + (TRANSACTION,) * 3 + (TOKEN, USER)
HOSTS = ("127.0.0.1", "127.0.0.2")


def drawn_acls(rng):
    """Returns up to twelve random ACLs, one in four of which denies."""
    found = set()
    for _ in range(rng.randint(0, 12)):
        kind = rng.choice(KINDS)
        name = rng.choice(PATTERNS[kind])
        prefixed = kind in (TOPIC, GROUP, TRANSACTION) and name != "*" and rng.random() < 0.4
        found.add(
            Acl(
                kind,
                name,
                PREFIXED if prefixed else LITERAL,
                rng.choice(("User:alice", "User:bob", "User:carol", "User:*")),
                rng.choice(("*", "*", *HOSTS)),
                rng.choice(OPERATIONS[kind]),
                Permission.DENY if rng.random() < 0.25 else Permission.ALLOW,
            )
        )
    return sorted(found)


EVERYTHING = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def ask(peer, name, version, values, listener="CLIENTS"):
    """Sends the request as root; returns the response."""
    return peer.root(make(BY_NAME[name], values, version), version, listener)


def set_acls(peer, acls):
    """Replaces all ACLs; waits until the broker and the controller know the new ones."""
    if present(peer, "CLIENTS") or present(peer, "ADMINS"):
        ask(peer, "DeleteAcls", 3, {"filters": [EVERYTHING]})
    creations = [
        {"resource_pattern_type" if key == "pattern_type" else CREATED.get(key, key): value}
        for acl in acls
        for key, value in acl._asdict().items()
    ]
    fields = len(Acl._fields)
    joined = [
        {
            key: value
            for creation in creations[start : start + fields]
            for key, value in creation.items()
        }
        for start in range(0, len(creations), fields)
    ]
    if joined:
        answer = ask(peer, "CreateAcls", 3, {"creations": joined})
        assert all(result.error_code == 0 for result in answer.results), answer
    for listener in ("CLIENTS", "ADMINS"):
        eventually("ACLs are known", lambda at=listener: present(peer, at) == sorted(acls))


CREATED = {"permission": "permission_type"}


def present(peer, listener):
    answer = ask(peer, "DescribeAcls", 3, EVERYTHING, listener)
    assert answer.error_code == 0
    return sorted(
        Acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in answer.resources
        for acl in resource.acls
    )


def populate(peer):
    """Creates topics, groups with offsets, transactions, and a group with a member of KIP-848; returns topic ids by
    name.
    """
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in TOPICS]
    answer = ask(peer, "CreateTopics", 7, {"topics": topics, "timeout_ms": 10_000})
    assert {topic.error_code for topic in answer.topics} == {0}
    for kind, keys in ((0, (*GROUPS, "modern")), (1, TRANSACTIONS)):
        eventually("coordinators", lambda k=kind, n=keys: _coordinated(peer, k, n))
    for group in GROUPS[:2]:
        eventually("offsets", lambda g=group: _committed(peer, g))
    for name in TRANSACTIONS[:2]:
        eventually("a transaction", lambda n=name: _begun(peer, n))
    eventually("a member", lambda: _joined(peer))
    return {topic.name: topic.topic_id for topic in answer.topics}


def _coordinated(peer, kind, keys):
    asked = {"key_type": kind, "coordinator_keys": list(keys)}
    answer = ask(peer, "FindCoordinator", 4, asked)
    return all(coordinator.error_code == 0 for coordinator in answer.coordinators)


def _committed(peer, group):
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [partition]} for name in TOPICS]
    who = {"generation_id_or_member_epoch": -1, "group_id": group}
    answer = ask(peer, "OffsetCommit", 8, who | {"topics": topics})
    return all(topic.partitions[0].error_code == 0 for topic in answer.topics)


def _begun(peer, name):
    asked = {"transactional_id": name, "transaction_timeout_ms": 600_000}
    answer = ask(peer, "InitProducerId", 4, asked | {"producer_id": -1, "producer_epoch": -1})
    if answer.error_code:
        return False
    topics = [{"name": topic, "partitions": [0]} for topic in TOPICS]
    asked = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": answer.producer_id,
        "v3_and_below_producer_epoch": answer.producer_epoch,
        "v3_and_below_topics": topics,
    }
    answer = ask(peer, "AddPartitionsToTxn", 3, asked)
    results = (result.results_by_partition[0] for result in answer.results_by_topic_v3_and_below)
    return all(result.partition_error_code == 0 for result in results)


def _joined(peer):
    asked = {
        "group_id": "modern",
        "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "member_epoch": 0,
        "rebalance_timeout_ms": 600_000,
        "subscribed_topic_names": ["orders", "secret"],
        "topic_partitions": [],
    }
    return ask(peer, "ConsumerGroupHeartbeat", 1, asked).error_code == 0
