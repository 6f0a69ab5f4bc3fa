"""How handlers check permissions: which permission on which resource, how often, and what is logged."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from tests.broker.calls import call, connection
from tests.checks import check_each
from tests.cluster.data_side import config
from tests.quorum.config_of import config_of
from trimaran.node.config.security_keys import STANDARD_AUTHORIZER
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Action, Authorizer
from trimaran.quorum.serving import audit
from trimaran.quorum.serving.authorization import (
    ACL_JUDGE,
    authorizer_of,
    check_cluster,
    check_tokens_allowed,
    everybody,
    may,
    may_somewhere,
    may_with,
    may_with_topic,
)
from trimaran.quorum.serving.authorized_operations import authorized_operations, cluster_operations
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from trimaran.wire.security.principal import ANONYMOUS, Principal

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, ALTER = (
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALTER,
)


@dataclass
class Node:
    authorizer: Authorizer | None
    config: Any = None


def asking(principal=ANONYMOUS, host="127.0.0.1"):
    peer = connection()
    peer.principal, peer.peer = principal, (host, 1)
    return call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, peer)


def node(*rights, host="*"):
    """Returns a node. `rights`: operations and their resources, by type and name."""
    authorizer = Authorizer()
    authorizer.complete_initial_load()
    for operation, kind, name in rights:
        authorizer._index.add(
            Acl(
                kind,
                name,
                PatternType.LITERAL,
                "User:ANONYMOUS",
                host,
                operation,
                Permission.ALLOW,
            )
        )
    return Node(authorizer)


@pytest.fixture
def noted(caplog, monkeypatch):
    caplog.set_level(logging.DEBUG, audit.log.name)
    monkeypatch.setattr(audit, "_DENIED", audit._Bound())

    def take():
        found = [
            (record.levelname, record.getMessage().split()[0], *_asked(record))
            for record in caplog.records
        ]
        caplog.clear()
        return found

    return take


def _asked(record):
    words = dict(word.split("=", 1) for word in record.getMessage().split() if "=" in word)
    return words["operation"], words["resource"]


def test_acl_for_principal_and_host_permits_client(noted):
    here = node((READ, TOPIC, "t"), host="10.0.0.1")
    action = Action(READ, TOPIC, "t")
    assert may(here, asking(host="10.0.0.1"), action)
    assert not may(here, asking(host="10.0.0.2"), action)
    assert not may(here, asking(Principal("alice"), "10.0.0.1"), action)
    assert noted() == [
        ("DEBUG", "allowed", "READ", "TOPIC:'t'"),
        ("INFO", "denied", "READ", "TOPIC:'t'"),
        ("INFO", "denied", "READ", "TOPIC:'t'"),
    ]
    assert not may(here, asking(), action, asked_for=False)
    assert noted() == [("DEBUG", "denied", "READ", "TOPIC:'t'")]
    assert may(Node(None), asking(), action)
    assert noted() == []


def test_name_is_checked_once_per_request(noted):
    here = node((READ, TOPIC, "t"))
    for make in (
        lambda **options: may_with(here, asking(), READ, TOPIC, **options),
        lambda **options: may_with_topic(here, asking(), READ, **options),
    ):
        may_read = make()
        assert [may_read(name) for name in "tutu"] == [True, False, True, False]
        assert noted() == [
            ("DEBUG", "allowed", "READ", "TOPIC:'t'"),
            ("INFO", "denied", "READ", "TOPIC:'u'"),
        ]
        assert not make(asked_for=False)("u")
        assert noted() == [("DEBUG", "denied", "READ", "TOPIC:'u'")]
    assert may_with(Node(None), asking(), READ, TOPIC) is everybody
    assert may_with_topic(Node(None), asking(), READ) is everybody
    assert everybody("u")
    assert not may_with(here, asking(), READ, GROUP)("t")
    assert not may_with(here, asking(), WRITE, TOPIC)("t")


def test_cluster_right_suffices_for_declared_operations(noted):
    cluster = node((ALTER, CLUSTER, CLUSTER_NAME))
    assert may_with_topic(cluster, asking(), READ, or_cluster=ALTER)("any")
    assert noted() == [("DEBUG", "allowed", "ALTER", f"CLUSTER:'{CLUSTER_NAME}'")]
    assert not may_with_topic(cluster, asking(), READ, or_cluster=Operation.CREATE)("any")
    assert not may_with_topic(cluster, asking(), READ)("any")
    noted()
    assert not may_with_topic(node(), asking(), READ, or_cluster=ALTER)("t")
    assert [line[:3] for line in noted()] == [
        ("DEBUG", "denied", "ALTER"),
        ("INFO", "denied", "READ"),
    ]
    assert may_with_topic(Node(None), asking(), READ, or_cluster=ALTER)("t")


def test_cluster_refusal_names_the_missing_right():
    allowed = node((ALTER, CLUSTER, CLUSTER_NAME))
    check_cluster(allowed, asking(), ALTER)
    check_cluster(Node(None), asking(), ALTER)
    for operation in (Operation.CREATE, Operation.CLUSTER_ACTION):
        with pytest.raises(KafkaError) as caught:
            check_cluster(allowed, asking(), operation)
        assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert caught.value.message == f"User:ANONYMOUS may not {operation.name} the cluster"


def test_any_resource_of_type_suffices_without_name(noted):
    here = node((WRITE, TOPIC, "t"))
    assert may_somewhere(here, asking(), WRITE, TOPIC)
    assert not may_somewhere(here, asking(), READ, TOPIC)
    assert not may_somewhere(here, asking(), WRITE, GROUP)
    assert not may_somewhere(here, asking(Principal("alice")), WRITE, TOPIC)
    at_home = node((WRITE, TOPIC, "t"), host="10.0.0.1")
    assert may_somewhere(at_home, asking(host="10.0.0.1"), WRITE, TOPIC)
    assert not may_somewhere(at_home, asking(host="10.0.0.2"), WRITE, TOPIC)
    assert [line[:3] for line in noted()] == [
        ("DEBUG", "allowed", "WRITE"),
        ("INFO", "denied", "READ"),
        ("INFO", "denied", "WRITE"),
        ("INFO", "denied", "WRITE"),
        ("DEBUG", "allowed", "WRITE"),
        ("INFO", "denied", "WRITE"),
    ]
    assert may_somewhere(Node(None), asking(), READ, GROUP)
    assert noted() == []


def test_declared_rights_match_explicit_checks(noted):
    here = node((READ, GROUP, "g"))
    assert (ACL_JUDGE.judges(here), ACL_JUDGE.judges(Node(None))) == (True, False)
    for operation, kind, name, expected in (
        (READ, GROUP, "g", True),
        (READ, GROUP, "h", False),
        (Operation.DELETE, GROUP, "g", False),
        (READ, TOPIC, "g", False),
    ):
        allowed = ACL_JUDGE.allows(here, asking(), operation, kind, name, asked_for=False)
        assert allowed is expected
    assert {line[0] for line in noted()} == {"DEBUG"}


def test_operation_bits_match_rights_without_refusals(noted):
    """The bits are computed without denials: a missing bit is not a refusal."""
    here = node((READ, TOPIC, "t"), (Operation.DELETE, TOPIC, "u"))
    bits = 1 << READ | 1 << DESCRIBE
    assert authorized_operations(here, asking(), TOPIC, "t") == bits
    assert authorized_operations(here, asking(), TOPIC, "v") == 0
    assert authorized_operations(here, asking(), GROUP, "t") == 0
    assert {line[0] for line in noted()} == {"DEBUG"}
    cluster = node((Operation.CREATE, CLUSTER, CLUSTER_NAME))
    assert cluster_operations(cluster, asking()) == 0, "without DESCRIBE"
    both = node(*((item, CLUSTER, CLUSTER_NAME) for item in (Operation.CREATE, DESCRIBE)))
    assert cluster_operations(both, asking()) == 1 << Operation.CREATE | 1 << DESCRIBE


def test_super_users_and_acl_default_follow_file():
    def judged(name, **changes):
        found = authorizer_of(config_of(authorizer_class_name=STANDARD_AUTHORIZER, **changes))
        found.complete_initial_load()
        return found.judge(Principal(name), "h", Action(READ, TOPIC, "t")).allowed

    users = {"super_users": "User:alice; User:bob ;"}
    assert [judged(name, **users) for name in ("alice", "bob", "eve")] == [True, True, False]
    assert judged("eve", allow_everyone_if_no_acl_found="true")
    assert not judged("eve", allow_everyone_if_no_acl_found="false")


def test_tokens_need_a_direct_login():
    listeners = {
        "listeners": "A://:1,B://:2,C://:3,D://:4",
        "listener_security_protocol_map": (
            "A:PLAINTEXT,B:SASL_PLAINTEXT,C:SASL_SSL,D:SSL,CONTROLLER:PLAINTEXT"
        ),
        "inter_broker_listener_name": "A",
        "advertised_listeners": "A://h:1,B://h:2,C://h:3,D://h:4",
    }
    here = Node(None, config(**listeners))
    alice, by_token = Principal("alice"), Principal("alice", by_token=True)
    rows = {
        ("A", alice): False,
        ("A", ANONYMOUS): False,
        ("B", alice): True,
        ("C", alice): True,
        ("D", alice): True,
        ("D", ANONYMOUS): False,
        **{(name, by_token): False for name in "ABCD"},
    }

    def allows(*asked, **more):
        codes = []
        try:
            check_tokens_allowed(*asked, **more)
        except KafkaError as error:
            codes.append(error.code)
        assert codes in ([], [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED])
        return not codes

    def check(row):
        (name, principal), expected = row
        peer = connection(name)
        peer.principal = principal
        assert allows(here, peer) is expected
        assert allows(here, peer, forwarded=True) is (principal is not by_token)

    check_each(rows.items(), check)
