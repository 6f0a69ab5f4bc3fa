"""Entities that tools write while the leading mirror is killed halfway: the next mirror performs the remaining requests
once.
"""

import json
from collections import deque

import pytest
import trio

from tests.cluster.in_process import cluster
from tests.zkcompat.legacy.rig import ALL, Admin, mirroring
from tests.zkcompat.legacy.takeover import (
    NOTE,
    altering,
    creating,
    in_step,
    killed_at,
    quorum_request,
)
from tests.zkcompat.rig import PATIENCE, connected
from trimaran.quorum.metadata.describe_client_quotas import USER
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.zkcompat.legacy.admin import LegacyAdmin
from trimaran.zkcompat.legacy.controller_client import ControllerClient
from trimaran.zkcompat.sections.quotas import quotas_of

ACL_NOTE = "/kafka-acl-changes/acl_changes_"
ACLS_PATH = "/kafka-acl/Topic/there"
ACLS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


def config(**entries):
    named = {key.replace("_", "."): value for key, value in entries.items()}
    return json.dumps({"version": 1, "config": named}).encode()


def quotas(**entries):
    return json.dumps({"version": 1, "config": entries}).encode()


def acls(*users):
    entry = {"permissionType": "Allow", "host": "*", "operation": "Read"}
    entries = [{"principal": f"User:{user}", **entry} for user in users]
    return json.dumps({"version": 1, "acls": entries}).encode()


async def write_config(tool, data):
    await tool.write("/config/topics/there", data)
    await tool.note(NOTE, b'{"version":2,"entity_path":"topics/there"}')


async def write_quotas(tool, data):
    await tool.write("/config/users/alice", data)
    await tool.note(NOTE, b'{"version":2,"entity_path":"users/alice"}')


async def write_acls(tool, data):
    if data is None:
        await tool.delete(ACLS_PATH)
    else:
        await tool.write(ACLS_PATH, data)
    await tool.note(ACL_NOTE, b"Topic:there")


def configs_of(image):
    return dict(image.configs.of(TOPIC_RESOURCE, "there"))


def quotas_of_alice(image):
    return quotas_of(image.quotas, ((USER, "alice"),))


def allowed(image):
    return {acl.principal.removeprefix("User:") for acl in image.acls.values()}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("request_name", "write", "data", "asked", "wanted"),
    [
        ("IncrementalAlterConfigsRequest", write_config, [config(retention_ms="7")], configs_of,
         {"retention.ms": "7"}),
        ("AlterClientQuotasRequest", write_quotas, [quotas(consumer_byte_rate="8")],
         quotas_of_alice, {"consumer_byte_rate": "8"}),
        ("CreateAclsRequest", write_acls, [acls("alice", "bob")], allowed, {"alice", "bob"}),
        ("DeleteAclsRequest", write_acls, [acls("alice", "bob"), acls("bob")], allowed, {"bob"}),
        ("DeleteAclsRequest", write_acls, [acls("alice"), None], allowed, set()),
        # One part is added and one is removed: two requests.
        ("CreateAclsRequest", write_acls, [acls("alice"), acls("bob")], allowed, {"bob"}),
        ("DeleteAclsRequest", write_acls, [acls("alice"), acls("bob")], allowed, {"bob"}),
    ],
)  # fmt: skip
async def test_next_mirror_performs_remaining_requests(
    tmp_path, connect, request_name, write, data, asked, wanted, after, caplog
):
    async with cluster(tmp_path, **ACLS) as running, connected(connect) as hands:
        await quorum_request(running, creating("there"))
        tool = Admin(running, None, None, hands, connect)
        *before, last = data
        async with mirroring(running, connect) as (feed, mirror):
            await in_step(feed, mirror)
            admin = Admin(running, feed, mirror, hands, connect)
            for item in before:
                await write(admin, item)
                await admin.until(asked)
                await admin.in_step()
        async with killed_at(running, connect, request_name, after=after) as (feed, mirror):
            await in_step(feed, mirror)
            await write(tool, last)
        async with mirroring(running, connect) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            await admin.until(lambda image: asked(image) == wanted)
            await in_step(feed, mirror)
            # Another client changes the entity, and then everything is compared: no request of the tool is left.
            await quorum_request(running, altering("there", retention_ms="9"))
            await admin.until(lambda image: configs_of(image)["retention.ms"] == "9")
            await admin.in_step()
        async with mirroring(running, connect) as (feed, mirror):
            await in_step(feed, mirror)
            admin = Admin(running, feed, mirror, hands, connect)
            await admin.write("/brokers/topics/last", b'{"version":1,"partitions":{"0":[11]}}')
            await admin.until(lambda image: "last" in image.topics.by_name)
            assert configs_of(feed.image)["retention.ms"] == "9"
            if asked is not configs_of:
                assert asked(feed.image) == wanted
        assert "Refused" not in caplog.text


def forgetful(feed):
    """Returns a companion of a mirror that keeps only the newest image, as after a long time."""
    feed.history = deque(maxlen=1)
    return LegacyAdmin(ControllerClient(feed.leader_address), ALL)


@pytest.mark.parametrize("companion", [None, forgetful])
async def test_write_without_change_is_not_obeyed_later(tmp_path, connect, companion):
    """A tool writes the current value, and the quorum changes it while no mirror leads."""
    async with cluster(tmp_path) as running, connected(connect) as hands:
        await quorum_request(running, creating("there"))
        await quorum_request(running, altering("there", retention_ms="7"))
        tool = Admin(running, None, None, hands, connect)
        async with mirroring(running, connect) as (feed, mirror):
            await in_step(feed, mirror)
            written = await tool.write("/config/topics/there", config(retention_ms="7"))
            await tool.note(NOTE, b'{"version":2,"entity_path":"topics/there"}')

            async def is_looked_at():
                return (await hands.read("/config/topics/there")).version > written.version

            await tool.until_tree(is_looked_at)
        await quorum_request(running, altering("there", retention_ms="8"))
        async with mirroring(running, connect, companion=companion) as (feed, mirror):
            await in_step(feed, mirror)
            await tool.write("/brokers/topics/last", b'{"version":1,"partitions":{"0":[11]}}')
            with trio.fail_after(PATIENCE):
                await feed.wait_for(lambda feed: "last" in feed.image.topics.by_name)
            assert configs_of(feed.image) == {"retention.ms": "8"}


async def test_changes_of_quorum_meanwhile_stay(tmp_path, connect):
    """While no mirror leads, a tool changes one key and the quorum another: tools write the whole znode."""
    async with cluster(tmp_path) as running, connected(connect) as hands:
        await quorum_request(running, creating("there"))
        await quorum_request(running, altering("there", retention_ms="7", segment_bytes="2000000"))
        async with mirroring(running, connect) as (feed, mirror):
            await in_step(feed, mirror)
        await quorum_request(running, altering("there", retention_ms="8"))
        tool = Admin(running, None, None, hands, connect)
        await write_config(tool, config(retention_ms="7", segment_bytes="3000000"))
        async with mirroring(running, connect) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            await admin.until(lambda image: configs_of(image).get("segment.bytes") == "3000000")
            assert configs_of(feed.image)["retention.ms"] == "8"
