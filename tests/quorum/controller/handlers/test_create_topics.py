"""CreateTopics on the controller."""

from dataclasses import replace

import pytest

from tests.broker.handlers.test_create_topics import creation
from tests.quorum.controller.handlers.controller_client import (
    SUPER_USER,
    controller_client,
    standby_client,
)
from tests.quorum.controller.security.test_acls import ALICE, record
from tests.quorum.controller.security.test_acls import creation as acl_creation
from tests.quorum.controller.solo import solo
from tests.quorum.metadata.build import SOMEWHERE, broker, features, image_of, replay
from trimaran.quorum.controller.handlers.create_topics import create_topics
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_acls import CreateAclsRequest
from trimaran.wire.messages.create_topics import CreateTopicsResponse
from trimaran.wire.security.acls import Operation


@pytest.mark.parametrize("version", [2, 5, 7])
async def test_topic_is_created_on_active_brokers(tmp_path, version):
    async with controller_client(tmp_path) as one:
        await one.join(1, 2)
        answer = await one.call(creation(partitions=3, replicas=2), version)
        (created,) = answer.topics
        topic = one.image.topics.by_name["t"]
        assert created.error_code == 0
        assert [sorted(p.replicas) for p in topic.partitions.values()] == [[1, 2]] * 3
        assert created.topic_id == (topic.id if version >= 7 else bytes(16))
        assert bool(created.configs) == (version >= 5)


async def test_topic_without_brokers_is_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        (topic,) = (await one.call(creation())).topics
        assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.slow
async def test_inactive_controller_refuses_every_topic(tmp_path):
    async with standby_client(tmp_path) as one:
        assert [t.error_code for t in (await one.call(creation())).topics] == [
            ErrorCode.NOT_CONTROLLER
        ]


def authorizer(*operations):
    """Allows Alice and every other client these operations on topics."""
    acls = [
        record(number, ALICE._replace(principal="User:*", resource_name="*", operation=operation))
        for number, operation in enumerate(operations)
    ]
    found = Authorizer()
    found.complete_initial_load()
    found.publish(replay(acls), image_of(*acls), Manifest(SOMEWHERE))
    return found


@pytest.mark.parametrize("version", [5, 6, 7])
@pytest.mark.parametrize("sees", [True, False])
async def test_configs_are_returned_only_to_authorized_clients(mock_clock, caplog, version, sees):
    """KIP-525: a client with only CREATE gets an error code instead of the configs, and no counts. The client did not
    request them, so this is not logged as a denial.
    """
    caplog.set_level("INFO", "kafka.authorizer.logger")
    rights = [Operation.CREATE, *([Operation.DESCRIBE_CONFIGS] if sees else [])]
    async with solo(features(), broker(1)) as one:
        one.context = replace(one.context, authorizer=authorizer(*rights))
        request = creation("t")
        request.topics.append(request.topics[0].replace(name="bad!"))
        answer = await one.call(create_topics, request, version)
        made, refused = CreateTopicsResponse.decode(answer.encode(version), version).topics
        assert (refused.error_code, refused.topic_config_error_code) == (17, 0)
        assert made.error_code == 0
        told = (made.topic_config_error_code, made.num_partitions, made.replication_factor)
        assert told == ((0, 1, 1) if sees else (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1))
        assert ("retention.ms" in [config.name for config in made.configs]) is sees
    assert "kafka.authorizer.logger" not in {record.name for record in caplog.records}


async def test_acl_applies_once_committed(tmp_path):
    """The active controller authorizes by the metadata that it writes itself."""
    acl = ALICE._replace(resource_name="*", operation=Operation.CREATE)
    async with controller_client(tmp_path, **SUPER_USER) as one:
        codes = []
        for creations in ([], [acl_creation(acl)]):
            await one.call(CreateAclsRequest(creations=creations))
            codes.append((await one.forwarded(creation("t"), 7, "alice")).topics[0].error_code)
        assert codes == [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_REPLICATION_FACTOR,  # there is no broker
        ]
