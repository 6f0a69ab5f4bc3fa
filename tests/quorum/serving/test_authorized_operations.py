"""What who asks may do, as bits: all without an authorizer; with one what it allows, and what nobody enforces."""

from dataclasses import dataclass

import pytest

from quorum.metadata.authorizer import Authorizer
from quorum.serving.authorized_operations import (
    OPERATIONS_OF,
    authorized_operations,
    cluster_operations,
)
from tests.broker.calls import connection
from wire.security.acls import CLUSTER_NAME, Operation, ResourceType


@dataclass
class Node:
    authorizer: Authorizer | None
    config: None = None


def names(bits):
    return {one for one in Operation if bits >> one & 1}


def node(*super_users, allows_all=False):
    authorizer = Authorizer(super_users, allow_if_no_acl=allows_all)
    authorizer.complete_initial_load()
    return Node(authorizer)


@pytest.mark.parametrize("kind", OPERATIONS_OF)
def test_all_without_an_authorizer_and_for_super_users(kind):
    for one in (Node(None), node("User:ANONYMOUS"), node(allows_all=True)):
        assert names(authorized_operations(one, connection(), kind, "x")) == OPERATIONS_OF[kind]


def test_who_may_nothing_may_what_nobody_enforces():
    def of(kind, name="x"):
        return names(authorized_operations(node(), connection(), kind, name))

    altering = {Operation.ALTER_CONFIGS}
    assert of(ResourceType.TOPIC) == OPERATIONS_OF[ResourceType.TOPIC] - altering
    assert of(ResourceType.GROUP) == OPERATIONS_OF[ResourceType.GROUP] - altering
    open_ones = {Operation.CREATE, Operation.IDEMPOTENT_WRITE}
    assert of(ResourceType.CLUSTER, CLUSTER_NAME) == open_ones


def test_who_may_not_describe_the_cluster_is_told_nothing_of_it():
    assert cluster_operations(node(), connection()) == 0
    told = names(cluster_operations(node("User:ANONYMOUS"), connection()))
    assert told == OPERATIONS_OF[ResourceType.CLUSTER]
