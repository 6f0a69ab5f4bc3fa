"""Controllers' handlers that authorize by themselves: each right that a request needs is sufficient, and necessary."""

from dataclasses import replace

import pytest

from tests.broker.handlers.configs import BROKER, GROUP, LOGGER, TOPIC, incremental, replacing
from tests.broker.handlers.test_create_partitions import growth
from tests.broker.handlers.test_create_topics import creation
from tests.broker.handlers.test_delete_topics import by_id
from tests.quorum.controller.handlers.test_create_delegation_token import CREATION, SECRET
from tests.quorum.controller.solo import solo
from tests.quorum.metadata.build import broker, features, partition, topic, uid
from trimaran.quorum.controller.handlers.alter_configs import alter_configs
from trimaran.quorum.controller.handlers.create_delegation_token import create_delegation_token
from trimaran.quorum.controller.handlers.create_partitions import create_partitions
from trimaran.quorum.controller.handlers.create_topics import create_topics
from trimaran.quorum.controller.handlers.delete_topics import delete_topics
from trimaran.quorum.controller.handlers.incremental_alter_configs import incremental_alter_configs
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import AclIndex, Authorizer
from trimaran.wire.errors import ErrorCode as E
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from trimaran.wire.security.principal import Principal

LITERAL = 3
ON_CLUSTER = (ResourceType.CLUSTER, CLUSTER_NAME)
ON_TOPIC = (ResourceType.TOPIC, "t")
ALTERS_CLUSTER = {(*ON_CLUSTER, Operation.ALTER_CONFIGS)}
EVERYTHING = {
    (kind, "*", Operation.ALL) for kind in ResourceType if kind not in (0, ResourceType.ANY)
}
FOR_BOB = CREATION.replace(owner_principal_type="User", owner_principal_name="bob")
TOPIC_BY_NAME = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1)
VALUES = {"retention.ms": "5"}
CONFIGS = [
    ((TOPIC, "t", VALUES), {(*ON_TOPIC, Operation.ALTER_CONFIGS)}, E.TOPIC_AUTHORIZATION_FAILED),
    (
        (GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
        {(ResourceType.GROUP, "g", Operation.ALTER_CONFIGS)},
        E.GROUP_AUTHORIZATION_FAILED,
    ),
    ((BROKER, "", {"log.retention.ms": "5"}), ALTERS_CLUSTER, E.CLUSTER_AUTHORIZATION_FAILED),
]
LEVEL = (LOGGER, "1", {"root": "INFO"})
# The request, its version, the sets of rights of which each is sufficient, and the error without any of them.
ROWS = [
    *(
        (incremental_alter_configs, incremental(one), 1, [rights], code)
        for one, rights, code in CONFIGS
    ),
    (
        incremental_alter_configs,
        incremental(LEVEL, validate_only=True),
        1,
        [ALTERS_CLUSTER],
        E.CLUSTER_AUTHORIZATION_FAILED,
    ),
    *((alter_configs, replacing(one), 2, [rights], code) for one, rights, code in CONFIGS),
    (
        create_topics,
        creation("new"),
        4,
        [{(*ON_CLUSTER, Operation.CREATE)}, {(ResourceType.TOPIC, "new", Operation.CREATE)}],
        E.TOPIC_AUTHORIZATION_FAILED,
    ),
    (
        create_partitions,
        growth("t", 2),
        3,
        [{(*ON_TOPIC, Operation.ALTER)}],
        E.TOPIC_AUTHORIZATION_FAILED,
    ),
    *(
        (
            delete_topics,
            request,
            6,
            [{(*ON_CLUSTER, Operation.DELETE)}, {(*ON_TOPIC, Operation.DELETE)}],
            E.TOPIC_AUTHORIZATION_FAILED,
        )
        for request in (TOPIC_BY_NAME, by_id(uid(1)))
    ),
    (
        create_delegation_token,
        FOR_BOB,
        3,
        [{(ResourceType.USER, "User:bob", Operation.CREATE_TOKENS)}],
        E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ),
]


def authorizer(allowed, denied=()):
    found = Authorizer()
    found.complete_initial_load()
    found._index = AclIndex.of(
        Acl(kind, name, PatternType.LITERAL, "User:*", "*", operation, permission)
        for rights, permission in ((allowed, Permission.ALLOW), (denied, Permission.DENY))
        for kind, name, operation in rights
    )
    return found


async def code_of(handler, request, version, rights):
    """Returns the error code for a client of a broker with these rights."""
    records = (features(), broker(1), topic("t", 1), partition(1, 0, [1]))
    async with solo(*records, config=SECRET) as one:
        one.connection.principal = Principal("alice")
        one.context = replace(one.context, authorizer=rights, forwarded=True)
        response = await one.call(handler, request, version)
    for name in ("responses", "topics", "results"):
        if hasattr(response, name):
            (response,) = getattr(response, name)
    return E(response.error_code)


@pytest.mark.parametrize(("handler", "request_", "version", "sufficient", "refusal"), ROWS)
async def test_each_right_is_sufficient_and_necessary(
    mock_clock, handler, request_, version, sufficient, refusal
):
    for rights in sufficient:
        assert await code_of(handler, request_, version, authorizer(rights)) is E.NONE
    without = authorizer(EVERYTHING, denied=set().union(*sufficient))
    assert await code_of(handler, request_, version, without) is refusal
