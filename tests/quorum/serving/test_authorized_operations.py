"""The client's operations as bits: all without an authorizer, otherwise the allowed ones."""

from dataclasses import dataclass

import pytest

from tests.broker.calls import call
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.serving.authorized_operations import (
    OPERATIONS_OF,
    authorized_operations,
    cluster_operations,
)
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest
from trimaran.wire.security.acls import Operation, ResourceType

CALL = call(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)


@dataclass
class Node:
    authorizer: Authorizer | None
    config: None = None


def names(bits):
    return {operation for operation in Operation if bits >> operation & 1}


def node(*super_users, allows_all=False):
    authorizer = Authorizer(super_users, allow_if_no_acl=allows_all)
    authorizer.complete_initial_load()
    return Node(authorizer)


@pytest.mark.parametrize("kind", OPERATIONS_OF)
def test_super_users_and_open_nodes_get_all_operations(kind):
    for item in (Node(None), node("User:ANONYMOUS"), node(allows_all=True)):
        assert names(authorized_operations(item, CALL, kind, "x")) == OPERATIONS_OF[kind]


@pytest.mark.parametrize("kind", OPERATIONS_OF)
def test_principal_without_rights_gets_no_operations(kind):
    assert authorized_operations(node(), CALL, kind, "x") == 0


def test_cluster_operations_need_describe_on_cluster():
    assert cluster_operations(node(), CALL) == 0
    told = names(cluster_operations(node("User:ANONYMOUS"), CALL))
    assert told == OPERATIONS_OF[ResourceType.CLUSTER]
