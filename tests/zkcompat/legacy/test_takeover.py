"""Mirrors that start and end: each request is carried out once, and nothing else is."""

import json

import pytest
import trio

from tests.cluster.in_process import cluster
from tests.zkcompat.legacy.rig import CREATED, Admin, mirroring
from tests.zkcompat.legacy.takeover import (
    NOTE,
    altering,
    creating,
    first_mirror,
    killed_at,
    quorum_request,
)
from tests.zkcompat.rig import PATIENCE, connected
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


async def test_tool_writes_without_leading_mirror_are_found(tmp_path, connect):
    async with cluster(tmp_path) as running, connected(connect) as hands:
        await quorum_request(running, creating("grown", "altered", "doomed"))
        await first_mirror(running, connect)
        tool = Admin(running, None, None, hands, connect)
        await tool.write("/brokers/topics/new", CREATED)
        await tool.write("/brokers/topics/grown", b'{"partitions":{"0":[11],"1":[11]}}')
        config = b'{"version":1,"config":{"retention.ms":"7"}}'
        await tool.write("/config/topics/altered", config)
        await tool.note(NOTE, b'{"version":2,"entity_path":"topics/altered"}')
        await tool.write("/admin/delete_topics/doomed", None)
        async with mirroring(running, connect) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            await admin.until(lambda image: "new" in image.topics.by_name)
            await admin.until(lambda image: len(image.topics.by_name["grown"].partitions) == 2)
            await admin.until(lambda image: image.configs.of(TOPIC_RESOURCE, "altered"))
            await admin.until(lambda image: "doomed" not in image.topics.by_name)
            await admin.gone("/admin/delete_topics/doomed")
            await admin.gone("/brokers/topics/doomed")


async def test_decisions_without_leading_mirror_are_not_undone(tmp_path, connect):
    """The tree shows an earlier state of the cluster, which no tool requests."""
    async with cluster(tmp_path) as running, connected(connect) as hands:
        await quorum_request(running, creating("altered", "deleted", "again"))
        await quorum_request(running, altering("altered", retention_ms="7"))
        await first_mirror(running, connect)
        await quorum_request(
            running, altering("altered", retention_ms="8", segment_bytes="2000000")
        )
        await quorum_request(running, DeleteTopicsRequest(topic_names=["deleted", "again"], timeout_ms=1000,
                                               topics=_named("deleted", "again")))  # fmt: skip
        await quorum_request(running, creating("again"))
        async with mirroring(running, connect) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            with trio.fail_after(PATIENCE):
                await mirror.wait_status(lambda s: s.state == "in step")
            await admin.gone("/brokers/topics/deleted")

            async def shown():
                found = await hands.read("/config/topics/altered")
                return json.loads(found.data)["config"].get("retention.ms") == "8"

            await admin.until_tree(shown)
            await admin.write("/brokers/topics/last", CREATED)
            await admin.until(lambda image: "last" in image.topics.by_name)
            assert set(admin.topics) == {"altered", "again", "last"}
            assert dict(admin.image.configs.of(TOPIC_RESOURCE, "altered")) == {
                "retention.ms": "8",
                "segment.bytes": "2000000",
            }


def _named(*names):
    return [DeleteTopicState(name=name, topic_id=bytes(16)) for name in names]


async def test_locked_parent_does_not_stop_mirror(tmp_path, connect, caplog):
    owner = connected(connect, auth=[("digest", "owner:secret")], secured=True)
    async with cluster(tmp_path) as running, connected(connect) as hands, owner as lock:
        await first_mirror(running, connect)
        for path in ("/admin/delete_topics", "/config/changes"):
            await lock.hide(path)
        await Admin(running, None, None, hands, connect).write("/brokers/topics/new", CREATED)
        async with mirroring(running, connect) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            await admin.until(lambda image: "new" in image.topics.by_name)
        assert "Writes of tools cannot be watched: /admin/delete_topics" in caplog.text
        assert "Writes of tools cannot be watched: /config/changes" in caplog.text


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("request_name", "path", "data"),
    [
        ("CreateTopicsRequest", "/brokers/topics/new", CREATED),
        ("DeleteTopicsRequest", "/admin/delete_topics/there", None),
        ("AlterPartitionReassignmentsRequest", "/admin/reassign_partitions",
         b'{"version":1,"partitions":[{"topic":"there","partition":0,"replicas":[12]}]}'),
        ("CreatePartitionsRequest", "/brokers/topics/there",
         b'{"version":1,"partitions":{"0":[11],"1":[11]}}'),
        ("ElectLeadersRequest", "/admin/preferred_replica_election",
         b'{"version":1,"partitions":[{"topic":"there","partition":0}]}'),
    ],
)  # fmt: skip
async def test_next_mirror_completes_request_of_killed_one(
    tmp_path, connect, request_name, path, data, after, caplog
):
    async with cluster(tmp_path, brokers=2) as running, connected(connect) as hands:
        await quorum_request(running, creating("there"))
        await first_mirror(running, connect)
        tool = Admin(running, None, None, hands, connect)
        await tool.write(path, data)
        async with killed_at(running, connect, request_name, after=after):
            pass
        async with mirroring(running, connect) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            with trio.fail_after(PATIENCE):
                await mirror.wait_status(lambda s: s.state == "in step")
            if path.startswith("/admin/"):
                await admin.gone(path)
            await admin.write("/brokers/topics/last", CREATED)
            await admin.until(lambda image: "last" in image.topics.by_name)
            expected = {"there", "last"}
            match request_name:
                case "CreateTopicsRequest":
                    expected.add("new")
                case "DeleteTopicsRequest":
                    expected.remove("there")
                case "CreatePartitionsRequest":
                    assert len(admin.topics["there"].partitions) == 2
                case "AlterPartitionReassignmentsRequest":
                    assert admin.topics["there"].partitions[0].replicas == (12,)
            assert set(admin.topics) == expected
        assert "Refused" not in caplog.text


async def test_recreated_topic_survives_old_deletion_request(tmp_path, connect):
    async with cluster(tmp_path) as running, connected(connect) as hands:
        await quorum_request(running, creating("there"))
        await first_mirror(running, connect)
        tool = Admin(running, None, None, hands, connect)
        await tool.write("/admin/delete_topics/there", None)
        async with killed_at(running, connect, "DeleteTopicsRequest", after=True):
            pass
        await quorum_request(running, creating("there"))
        async with mirroring(running, connect) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            await admin.gone("/admin/delete_topics/there")
            assert set(admin.topics) == {"there"}


async def test_tree_of_zookeeper_mode_contains_only_requests(tmp_path, connect):
    """No mirror has written it: its content is not a tool's request."""
    async with cluster(tmp_path) as running, connected(connect) as hands:
        tool = Admin(running, None, None, hands, connect)
        for path in ("/", "/brokers", "/brokers/topics", "/config", "/config/topics",
                     "/config/changes", "/admin", "/admin/delete_topics"):  # fmt: skip
            await tool.hands.ensure(path, None)
        await tool.write("/brokers/topics/old", CREATED)
        await quorum_request(running, creating("there", "doomed"))
        await tool.write("/config/topics/there", b'{"version":1,"config":{"retention.ms":"7"}}')
        await tool.note(NOTE, b'{"version":2,"entity_path":"topics/there"}')
        await tool.write("/admin/delete_topics/doomed", None)
        async with mirroring(running, connect) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            await admin.gone("/admin/delete_topics/doomed")
            await admin.gone("/brokers/topics/old")
            assert set(admin.topics) == {"there"}
            assert not admin.image.configs.of(TOPIC_RESOURCE, "there")
