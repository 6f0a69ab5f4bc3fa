"""Verdicts with their reasons, on one resource and on any resource of a type; and their cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quorum.metadata.build import SOMEWHERE, replay, uid
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import (
    KEPT_MAX,
    KEPT_NAME_MAX,
    NO_ACL,
    SUPER_USER,
    AclIndex,
    Action,
    Authorizer,
    config_refusal,
    config_resource,
    judge,
    judge_by_type,
)
from trimaran.quorum.metadata.image import (
    BROKER_RESOURCE,
    EMPTY,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType
from trimaran.wire.security.principal import Principal

TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
WRITE = Action(Operation.WRITE, TOPIC, "orders")
ALICE = Principal("alice")


def acl(name, permission=ALLOW, pattern=LITERAL, operation=Operation.WRITE, **changes):
    made = Acl(TOPIC, name, pattern, "User:alice", "*", operation, permission)
    return made._replace(**changes)


def test_verdict_names_the_deciding_acl():
    allowing, denying = acl("orders"), acl("ord", DENY, PREFIXED)
    index = AclIndex.of([allowing])
    assert judge(index, "User:alice", "h", WRITE) == (True, allowing, "")
    index.add(denying)
    assert judge(index, "User:alice", "h", WRITE) == (False, denying, "")
    index.remove(denying)
    index.remove(denying)
    assert judge(index, "User:alice", "h", WRITE).acl == allowing
    assert judge(index, "User:bob", "h", WRITE).acl is None
    assert judge(index, "User:bob", "h", WRITE._replace(resource_name="other")) is NO_ACL


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([acl("t")], True),
        ([acl("t", pattern=PREFIXED)], True),
        ([acl("*")], True),
        ([acl("t", operation=Operation.ALL)], True),
        ([acl("t", operation=Operation.READ)], False),
        ([acl("t", principal="User:*")], True),
        ([acl("t", principal="User:bob")], False),
        ([acl("t", host="h")], True),
        ([acl("t", host="elsewhere")], False),
        ([acl("t", resource_type=ResourceType.GROUP)], False),
        ([acl("t"), acl("t", DENY)], False),
        ([acl("t"), acl("*", DENY)], False),
        ([acl("*"), acl("*", DENY)], False),
        ([acl("*"), acl("t", DENY)], True),
        ([acl("team"), acl("te", DENY, PREFIXED)], False),
        ([acl("team", pattern=PREFIXED), acl("te", DENY, PREFIXED)], False),
        ([acl("te", pattern=PREFIXED), acl("team", DENY, PREFIXED)], True),
        ([acl("t", pattern=PREFIXED), acl("t", DENY)], True),
        ([acl("t"), acl("t", DENY), acl("u")], True),
    ],
)
def test_allow_counts_unless_deny_covers_it(acls, allowed):
    """KIP-679: an ALLOW is effective unless a DENY covers its whole pattern."""
    assert judge_by_type(AclIndex.of(acls), "User:alice", "h", WRITE).allowed == allowed


@pytest.mark.parametrize("told", ["::1", "0:0:0:0:0:0:0:1", "0000::0001"])
@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1"])
def test_equivalent_spellings_of_host_match(told, host):
    """Kafka compares texts, so a DENY of ::1 has no effect there."""
    allowing, denying = acl("orders"), acl("orders", DENY, host=told)
    index = AclIndex.of([allowing, denying])
    assert judge(index, "User:alice", host, WRITE).acl == denying
    assert not judge_by_type(index, "User:alice", host, WRITE).allowed
    assert judge(index, "User:alice", "::2", WRITE).acl == allowing
    assert judge(AclIndex.of([acl("orders", host=told)]), "User:alice", host, WRITE).allowed


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
ACLS = st.builds(
    acl, NAMES, st.sampled_from([ALLOW, DENY]), st.sampled_from([LITERAL, PREFIXED])
).filter(lambda one: one.resource_name != "*" or one.pattern_type == LITERAL)


@given(st.lists(ACLS, max_size=5))
def test_write_access_by_any_name_allows_by_type(acls):
    """An operation allowed on some name is allowed by type; Kafka's rule may allow more, but never less."""
    index = AclIndex.of(acls)
    names = ("a", "ab", "abc", "abcd", "ax", "b", "bx", "hardcode")
    somewhere = any(
        judge(index, "User:alice", "h", WRITE._replace(resource_name=name)).allowed
        for name in names
    )
    everything_denied = acl("*", DENY) in acls
    if somewhere:
        assert judge_by_type(index, "User:alice", "h", WRITE).allowed
    if everything_denied:
        assert not judge_by_type(index, "User:alice", "h", WRITE).allowed


def authorizer(*super_users, **options):
    made = Authorizer(super_users, **options)
    made.complete_initial_load()
    return made


def test_super_users_and_open_clusters_by_type():
    denied = acl("*", DENY, principal="User:*")
    made = authorizer("User:root")
    made._index.add(denied)
    assert made.judge_by_type(Principal("root"), "h", WRITE) is SUPER_USER
    assert not made.judge_by_type(ALICE, "h", WRITE).allowed
    assert authorizer(allow_if_no_acl=True).judge_by_type(ALICE, "h", WRITE).allowed
    opened = authorizer(allow_if_no_acl=True)
    opened._index.add(acl("orders", DENY))
    assert opened.judge_by_type(ALICE, "h", WRITE).allowed, "the name in the question counts not"


def test_decision_holds_until_acls_change():
    made = authorizer()
    assert not made.judge(ALICE, "h", WRITE).allowed
    assert not made.judge_by_type(ALICE, "h", WRITE).allowed
    fields = acl("orders")._asdict()
    record = AccessControlEntryRecord(id=uid(1), permission_type=fields.pop("permission"), **fields)
    epoch = made.epoch
    made.publish(replay([]), EMPTY, Manifest(SOMEWHERE))
    assert made.epoch == epoch
    made.publish(replay([record]), EMPTY, Manifest(SOMEWHERE))
    assert made.epoch == epoch + 1
    assert made.judge(ALICE, "h", WRITE).allowed
    assert made.judge_by_type(ALICE, "h", WRITE).allowed


def test_decision_cache_is_bounded():
    made = authorizer()
    for number in range(KEPT_MAX + 10):
        made.judge(ALICE, "h", WRITE._replace(resource_name=f"t{number}"))
    assert len(made._kept) == 10
    made.judge(ALICE, "h", WRITE._replace(resource_name="x" * (KEPT_NAME_MAX + 1)))
    assert len(made._kept) == 10
    made.judge(Principal("a" * (KEPT_NAME_MAX + 1)), "h", WRITE)
    assert len(made._kept) == 10
    made.judge(ALICE, "h", WRITE._replace(resource_name="x" * KEPT_NAME_MAX))
    assert len(made._kept) == 11


def test_repeated_decision_is_cached():
    made = authorizer()
    made._index.add(acl("orders"))
    assert made.judge(ALICE, "h", WRITE) is made.judge(ALICE, "h", WRITE)


def test_only_super_users_pass_before_acls_load():
    made = Authorizer(["User:root"])
    assert made.judge(Principal("root"), "h", WRITE) is SUPER_USER
    for ask in (made.judge, made.judge_by_type):
        with pytest.raises(KafkaError) as refused:
            ask(ALICE, "h", WRITE)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
    made.complete_initial_load()
    assert not made.judge(ALICE, "h", WRITE).allowed


def test_removed_acl_no_longer_allows():
    made = authorizer()
    fields = acl("orders")._asdict()
    record = AccessControlEntryRecord(id=uid(1), permission_type=fields.pop("permission"), **fields)
    with_acl = replay([record])
    made.publish(with_acl, EMPTY, Manifest(SOMEWHERE))
    removed = replay([RemoveAccessControlEntryRecord(id=uid(1))], with_acl.apply(SOMEWHERE))
    made.publish(removed, EMPTY, Manifest(SOMEWHERE))
    assert not made.judge(ALICE, "h", WRITE).allowed
    assert made.epoch == 2


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (TOPIC_RESOURCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (GROUP_RESOURCE, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (BROKER_RESOURCE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_config_refusal_code_depends_on_resource_type(kind, code):
    assert config_refusal((kind, "1")) is code


def test_cached_decision_is_not_shared_between_requests():
    """Each part of the request matters: the host, the client, the operation, the resource and its type."""
    made = authorizer()
    made._index.add(acl("orders", host="10.0.0.1"))
    assert made.judge(ALICE, "10.0.0.1", WRITE).allowed
    assert not made.judge(ALICE, "10.0.0.2", WRITE).allowed
    assert not made.judge(Principal("bob"), "10.0.0.1", WRITE).allowed
    assert not made.judge(ALICE, "10.0.0.1", WRITE._replace(resource_name="other")).allowed
    assert not made.judge(ALICE, "10.0.0.1", Action(Operation.READ, TOPIC, "orders")).allowed
    group = Action(Operation.WRITE, ResourceType.GROUP, "orders")
    assert not made.judge(ALICE, "10.0.0.1", group).allowed
    somewhere = WRITE._replace(resource_name="other")
    assert made.judge_by_type(ALICE, "10.0.0.1", somewhere).allowed
    assert not made.judge_by_type(ALICE, "10.0.0.2", somewhere).allowed
    assert made.judge(ALICE, "10.0.0.1", WRITE).allowed, "as it was"


SOME_ACLS = [
    acl(name, pattern=pattern, principal=principal)
    for name in ("o", "or", "ab", "*")
    for pattern in (LITERAL, PREFIXED)
    for principal in ("User:alice", "User:bob")
]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(SOME_ACLS)), max_size=40))
def test_updated_index_equals_index_of_remaining_acls(changes):
    index, left = AclIndex(), set()
    for is_new, change in changes:
        (index.add if is_new else index.remove)(change)
        (left.add if is_new else left.discard)(change)
    expected = AclIndex.of(left)
    assert _without_empty(index) == _without_empty(expected)


def _without_empty(index):
    lengths = {kind: dict(counts) for kind, counts in index._prefix_lengths.items() if counts}
    return index._by_pattern, lengths


@pytest.mark.parametrize("denied", ["o", "or", "orders"])
def test_denied_prefix_covers_everything_allowed_below(denied):
    index = AclIndex.of([acl("orders"), acl(denied, DENY, PREFIXED)])
    assert not judge_by_type(index, "User:alice", "h", WRITE).allowed
    assert judge_by_type(
        AclIndex.of([acl("orders"), acl("x", DENY, PREFIXED)]), "User:alice", "h", WRITE
    ).allowed


@pytest.mark.parametrize(
    ("kind", "resource"),
    [
        (TOPIC_RESOURCE, (TOPIC, "1")),
        (GROUP_RESOURCE, (ResourceType.GROUP, "1")),
        (BROKER_RESOURCE, (ResourceType.CLUSTER, "kafka-cluster")),
    ],
)
def test_configs_need_rights_on_topic_group_or_cluster(kind, resource):
    assert config_resource((kind, "1")) == resource


OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


@pytest.mark.parametrize("asked", OPERATIONS)
def test_allow_implies_lesser_rights_deny_none(asked):
    """Source: `StandardAuthorizerData.findResult` of Kafka."""
    action = Action(asked, TOPIC, "orders")
    everything = acl("orders", operation=Operation.ALL)
    sufficient, denying = set(), set()
    for item in [Operation.ALL, *OPERATIONS]:
        granted = AclIndex.of([acl("orders", operation=item)])
        if judge(granted, "User:alice", "h", action).allowed:
            sufficient.add(item)
        denied = AclIndex.of([everything, acl("orders", DENY, operation=item)])
        if not judge(denied, "User:alice", "h", action).allowed:
            denying.add(item)
    assert sufficient == {Operation.ALL, asked} | IMPLIED.get(asked, set())
    assert denying == {Operation.ALL, asked}


def test_prefix_equal_to_whole_name_matches():
    index = AclIndex.of([acl("orders", pattern=PREFIXED)])
    assert judge(index, "User:alice", "h", WRITE).allowed
    assert not judge(index, "User:alice", "h", WRITE._replace(resource_name="order")).allowed
