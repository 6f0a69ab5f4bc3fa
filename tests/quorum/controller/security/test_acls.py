"""CreateAcls and DeleteAcls as decisions; filters and the authorizer compared with naive models."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quorum.metadata.build import SOMEWHERE, features, image_of, replay, uid
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.security.acls import create_acls, delete_acls
from trimaran.quorum.metadata.acls import Acl, by_resource, matches, matching
from trimaran.quorum.metadata.authorizer import AclIndex, Action, Authorizer, judge
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.metadata.records import image_to_records
from trimaran.wire.buffers.response_size import RESPONSE_BYTES_MAX, ResponseTooLarge
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_acls import AclCreation, CreateAclsRequest
from trimaran.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from trimaran.wire.messages.describe_acls import DescribeAclsRequest
from trimaran.wire.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType
from trimaran.wire.security.principal import Principal

ALICE = Acl(2, "orders", 3, "User:alice", "*", 3, 3)


def creation(acl=ALICE, **changes):
    acl = acl._replace(**changes)
    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def record(number, acl=ALICE):
    return AccessControlEntryRecord(
        id=uid(number),
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def create(*creations, image=EMPTY, ids=None):
    numbers = itertools.count(1) if ids is None else iter(ids)
    return at_once(
        create_acls(CreateAclsRequest(creations=list(creations)), image, lambda: uid(next(numbers)))
    )


def wanted(**changes):
    values = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return DeleteAclsFilter(**(values | changes))


def delete(*filters, image):
    return at_once(delete_acls(DeleteAclsRequest(filters=list(filters)), image.acls))


def test_an_acl_is_created_once():
    result = create(creation(), creation(), creation(host="::1"))
    assert result.records == [record(1), record(2, ALICE._replace(host="::1"))]
    assert [answer.error_code for answer in result.response.results] == [0, 0, 0]
    assert create(creation(), image=image_of(*result.records)).records == []


def test_cluster_resource_has_one_name():
    cluster = creation(resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster")
    assert [result.error_code for result in create(cluster).response.results] == [0]


@pytest.mark.parametrize(
    ("host", "level", "code"),
    [
        ("10.0.0.0/8", 32, ErrorCode.NONE),
        ("10.0.0.0/8", 31, ErrorCode.UNSUPPORTED_VERSION),
        ("2001:db8::/32", 33, ErrorCode.NONE),
        ("10.0.0.0/33", 32, ErrorCode.INVALID_REQUEST),
        ("10.0.0/8", 32, ErrorCode.INVALID_REQUEST),
        ("10.0.0.0/", 32, ErrorCode.INVALID_REQUEST),
        ("2001:db8::/129", 32, ErrorCode.INVALID_REQUEST),
        ("", 32, ErrorCode.INVALID_REQUEST),
        ("a name", 7, ErrorCode.NONE),
    ],
)
def test_networks_are_hosts_from_their_level_on(host, level, code):
    result = create(creation(host=host), creation(), image=image_of(features(level)))
    assert [each_result.error_code for each_result in result.response.results] == [code, 0]
    assert len(result.records) == (1 if code else 2)


def test_acl_id_is_never_reused():
    image = image_of(record(1))
    result = create(creation(host="a"), creation(host="b"), image=image, ids=[1, 2, 2, 3])
    assert [record.id for record in result.records] == [uid(2), uid(3)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": -3}, "Invalid operation UNKNOWN"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type "
            "from the principal name)",
        ),
    ],
)
def test_invalid_acl_is_refused_alone(changes, message):
    result = create(creation(**changes), creation())
    assert len(result.records) == 1
    refused, created = result.response.results
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert created.error_code == 0


def test_too_many_acls_are_refused_together():
    many = [creation(resource_name=f"t{n}") for n in range(10_001)]
    with pytest.raises(KafkaError) as caught:
        create(*many)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    image = image_of(*create(*many[:-1]).records)
    assert len(delete(wanted(), image=image).records) == 10_000
    image = image_of(record(20_000, ALICE._replace(resource_name="one more")), base=image)
    with pytest.raises(KafkaError) as caught:
        delete(wanted(), image=image)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert (
        caught.value.message == "Cannot remove more than 10000 acls in a single delete operation."
    )


def test_acl_matching_two_filters_is_reported_twice():
    image = image_of(record(1), record(2, ALICE._replace(host="h")))
    result = delete(wanted(), wanted(host_filter="h"), wanted(operation=0), image=image)
    assert {record.id for record in result.records} == {uid(1), uid(2)}
    first, second, third = result.response.filter_results
    assert [acl.host for acl in first.matching_acls] == ["*", "h"]
    assert [acl.host for acl in second.matching_acls] == ["h"]
    assert (third.error_code, third.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown entryFilter.",
    )


def test_acls_are_described_by_resource():
    image = image_of(
        record(1), record(2, ALICE._replace(host="h")), record(3, ALICE._replace(pattern_type=4))
    )
    request = DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter="orders-eu",
        pattern_type_filter=PatternType.MATCH,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    [(resource, _acls)] = by_resource(matching(request, image.acls))
    assert (resource.resource_name, resource.pattern_type) == ("orders", PatternType.PREFIXED)
    everything = request.replace(resource_name_filter=None, pattern_type_filter=1)
    found = by_resource(matching(everything, image.acls))
    assert [len(list(acls)) for _, acls in found] == [2, 1]


def test_repeated_filter_is_matched_once():
    image = image_of(*(record(n, ALICE._replace(host=f"h{n}")) for n in range(100)))
    everything = wanted()

    def steps(count):
        deciding = delete_acls(DeleteAclsRequest(filters=[everything] * count), image.acls)
        taken = 0
        while True:
            try:
                taken += next(deciding)
            except StopIteration as ended:
                return taken, ended.value

    once, _ = steps(1)
    taken, result = steps(50)
    assert taken == once + 49
    assert [
        len(filter_result.matching_acls) for filter_result in result.response.filter_results
    ] == [100] * 50
    assert len(result.records) == 100


def test_filters_with_oversized_answer_remove_nothing():
    name = "n" * 30_000
    image = image_of(*(record(n, ALICE._replace(host=f"{name}{n}")) for n in range(10)))
    everything = wanted()
    most = RESPONSE_BYTES_MAX // (10 * len(name))
    assert delete(*[everything] * (most - 1), image=image).records
    with pytest.raises(ResponseTooLarge):
        delete(*[everything] * (most + 1), image=image)


# --- naive models

NAMES = st.sampled_from(["*", "a", "ab", "abc", "b"])
PRINCIPALS = st.sampled_from(["User:a", "User:b", "User:*"])
HOSTS = st.sampled_from(["*", "h", "i"])
# Few values of each kind, so that they often coincide.
OPERATIONS = st.sampled_from(
    [
        Operation.ALL,
        Operation.READ,
        Operation.DESCRIBE,
        Operation.ALTER_CONFIGS,
        Operation.DESCRIBE_CONFIGS,
    ]
)
ACLS = st.builds(
    Acl,
    st.sampled_from([ResourceType.TOPIC] * 4 + [ResourceType.GROUP]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from([Permission.DENY, Permission.ALLOW, Permission.ALLOW]),
)
FILTERS = st.builds(
    wanted,
    resource_type_filter=st.sampled_from([1, 2, 3]),
    resource_name_filter=st.none() | NAMES,
    pattern_type_filter=st.sampled_from([1, 2, 3, 4]),
    principal_filter=st.none() | PRINCIPALS,
    host_filter=st.none() | HOSTS,
    operation=st.sampled_from([1, 3, 8]),
    permission_type=st.sampled_from([1, 2, 3]),
)


def naive_matches(one, acl):
    """Implements KIP-290 and `DescribeAcls` of KIP-140 sentence by sentence."""
    literal, prefixed = acl.pattern_type == 3, acl.pattern_type == 4
    if one.resource_name_filter is None:
        name = one.pattern_type_filter in (1, 2) or one.pattern_type_filter == acl.pattern_type
    else:
        same = one.resource_name_filter == acl.resource_name
        name = {
            1: same,
            2: (literal and (same or acl.resource_name == "*"))
            or (
                prefixed and one.resource_name_filter[: len(acl.resource_name)] == acl.resource_name
            ),
            3: literal and same,
            4: prefixed and same,
        }[one.pattern_type_filter]
    return name and all(
        (
            one.resource_type_filter == 1 or one.resource_type_filter == acl.resource_type,
            one.principal_filter is None or one.principal_filter == acl.principal,
            one.host_filter is None or one.host_filter == acl.host,
            one.operation == 1 or one.operation == acl.operation,
            one.permission_type == 1 or one.permission_type == acl.permission,
        )
    )


@given(FILTERS, ACLS)
def test_filters_match_as_a_naive_twin(one, acl):
    assert matches(one, acl) == naive_matches(one, acl)


def naive_allows(acls, principal, host, action, *, allow_if_no_acl):
    """Examines every ACL."""

    def covers(acl):
        if acl.resource_type != action.resource_type:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return action.resource_name.startswith(acl.resource_name)
        return acl.resource_name in ("*", action.resource_name)

    def speaks_of(acl):
        implied = {
            Operation.DESCRIBE: {"READ", "WRITE", "DELETE", "ALTER"},
            Operation.DESCRIBE_CONFIGS: {"ALTER_CONFIGS"},
        }.get(action.operation, set())
        operation = acl.operation in (Operation.ALL, action.operation) or (
            acl.permission == Permission.ALLOW and Operation(acl.operation).name in implied
        )
        who = acl.principal in ("User:*", principal) and acl.host in ("*", host)
        return who and operation

    about = [acl for acl in acls if covers(acl)]
    if not about:
        return allow_if_no_acl
    said = {acl.permission for acl in about if speaks_of(acl)}
    return Permission.ALLOW in said and Permission.DENY not in said


ACTIONS = st.builds(
    Action,
    OPERATIONS.filter(lambda operation: operation is not Operation.ALL),
    st.just(ResourceType.TOPIC),
    NAMES,
)
ASKED = st.tuples(
    st.sampled_from(["User:a", "User:a", "User:c"]), st.sampled_from(["h", "h", "j"]), ACTIONS
)
ALL_ASKED = st.lists(ASKED, min_size=4, max_size=8)


@given(st.lists(ACLS, max_size=5), ALL_ASKED, st.booleans())
def test_deny_beats_allow_as_a_naive_twin(acls, all_asked, allow_if_no_acl):
    """X3."""
    index = AclIndex.of(acls)
    for asked in all_asked:
        assert judge(index, *asked, allow_if_no_acl=allow_if_no_acl).allowed == naive_allows(
            acls, *asked, allow_if_no_acl=allow_if_no_acl
        )


@pytest.mark.parametrize(
    ("acl", "operation", "name", "allowed"),
    [
        (ALICE, Operation.READ, "orders", True),
        (ALICE, Operation.DESCRIBE, "orders", True),
        (ALICE, Operation.WRITE, "orders", False),
        (ALICE, Operation.READ, "orders-eu", False),
        (ALICE._replace(pattern_type=4), Operation.READ, "orders-eu", True),
        (ALICE._replace(pattern_type=4), Operation.READ, "orders", True),
        (ALICE._replace(pattern_type=4), Operation.READ, "order", False),
        (ALICE._replace(resource_name="*"), Operation.READ, "anything", True),
        (ALICE._replace(resource_name="*", pattern_type=4), Operation.READ, "anything", False),
        (ALICE._replace(operation=2), Operation.DELETE, "orders", True),
        (ALICE._replace(operation=11), Operation.DESCRIBE_CONFIGS, "orders", True),
        (ALICE._replace(host="h2"), Operation.READ, "orders", False),
        (ALICE._replace(principal="User:*"), Operation.READ, "orders", True),
    ],
)
def test_acl_allows_only_matching_requests(acl, operation, name, allowed):
    action = Action(operation, ResourceType.TOPIC, name)
    assert judge(AclIndex.of([acl]), "User:alice", "h", action).allowed == allowed
    denied = AclIndex.of([acl, ALICE._replace(resource_name="*", operation=2, permission=2)])
    assert not judge(denied, "User:alice", "h", action).allowed


def test_denied_read_does_not_deny_describe():
    index = AclIndex.of([ALICE._replace(permission=2), ALICE._replace(operation=8)])
    look = Action(Operation.DESCRIBE, ResourceType.TOPIC, "orders")
    assert judge(index, "User:alice", "h", look).allowed
    assert not judge(index, "User:alice", "h", look._replace(operation=Operation.READ)).allowed


def loaded(authorizer: Authorizer) -> Authorizer:
    authorizer.complete_initial_load()
    return authorizer


def test_acl_recreated_under_another_id_stays():
    """The ACL is removed and created again within one snapshot: the removal comes after the creation."""
    before, after = image_of(record(1)), image_of(record(2))
    authorizer = loaded(Authorizer())
    authorizer.publish(replay([record(1)]), before, Manifest(SOMEWHERE))
    delta = replay(image_to_records(after), before)
    delta.finish_snapshot()
    authorizer.publish(delta, after, Manifest(SOMEWHERE))
    read = Action(Operation.READ, ResourceType.TOPIC, "orders")
    assert authorizer.judge(Principal("alice"), "h", read).allowed


CHANGES = st.lists(st.tuples(st.integers(0, 6), st.none() | ACLS), max_size=20)


@given(st.lists(CHANGES, max_size=4), st.integers(0, 3), ALL_ASKED)
def test_deltas_and_snapshot_give_same_verdicts(batches, snapshot_at, all_asked):
    """X3: after any additions and removals, some of them read as a snapshot, the index answers like one built from the
    image.
    """
    image, authorizer = EMPTY, loaded(Authorizer())
    for number, changes in enumerate(batches):
        delta = MetadataDelta(image)
        present = {key: Acl.of(value) for key, value in image.acls.items()}
        for key, acl in changes:
            if acl is not None and acl not in present.values():
                present[uid(key)] = acl
                delta.replay(record(key, acl))
            elif acl is None and uid(key) in present:
                del present[uid(key)]
                delta.replay(RemoveAccessControlEntryRecord(id=uid(key)))
        after = delta.apply(SOMEWHERE)
        if number == snapshot_at:
            delta = replay(image_to_records(after), image)
            delta.finish_snapshot()
        authorizer.publish(delta, after, Manifest(SOMEWHERE))
        image = after
    acls = [Acl.of(value) for value in image.acls.values()]
    for who, *asked in all_asked:
        principal = Principal(who.removeprefix("User:"))
        expected = naive_allows(acls, who, *asked, allow_if_no_acl=False)
        assert authorizer.judge(principal, *asked).allowed == expected


def test_super_users_may_do_everything():
    authorizer = loaded(Authorizer({"User:root"}))
    action = Action(Operation.ALTER)
    assert authorizer.judge(Principal("root"), "h", action).allowed
    assert not authorizer.judge(Principal("a"), "h", action).allowed
    assert loaded(Authorizer(allow_if_no_acl=True)).judge(Principal("a"), "h", action).allowed


def test_only_super_users_pass_before_acls_are_loaded():
    """An older snapshot has no ACL at all; the one that denies the request comes later in the log."""
    authorizer = Authorizer({"User:root"}, allow_if_no_acl=True)
    action = Action(Operation.READ, ResourceType.TOPIC, "orders")
    assert authorizer.judge(Principal("root"), "h", action).allowed
    with pytest.raises(KafkaError, match="has not loaded all ACLs yet"):
        authorizer.judge(Principal("alice"), "h", action)
    denied = record(1, ALICE._replace(permission=2))
    authorizer.publish(replay([denied]), image_of(denied), Manifest(SOMEWHERE))
    authorizer.complete_initial_load()
    assert not authorizer.judge(Principal("alice"), "h", action).allowed
