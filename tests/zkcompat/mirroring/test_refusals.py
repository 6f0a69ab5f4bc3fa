"""A znode that the mirror may not read or write is held back; everything else is mirrored."""

import json

import pytest
import trio
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from tests.zkcompat import build
from tests.zkcompat.build import T1
from tests.zkcompat.rig import (
    PATIENCE,
    Source,
    connected,
    differences,
    in_step,
    reached,
    running,
    topics,
)
from trimaran.zkcompat.comparing.tree_parts import LEVELS_MAX
from trimaran.zkcompat.mirroring.writer import LINES_MAX
from trimaran.zkcompat.zookeeper.keeper import Keeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

POLL_SECONDS = 0.02
OTHER = [("digest", "somebody:else")]
# Permissions of other users; `OTHER` may restore them.
MAY_READ = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
MAY_NOTHING = CREATOR_ALL_ACL


async def allow(keeper, path, acl):
    await keeper._answer(keeper._client.set_acls_async(path, acl), path)


async def told(keeper):
    """Returns the entities that are named in notifications of changed configs."""
    notes = await keeper.read_tree(["/config/changes"], [])
    return [json.loads(note.data)["entity_path"] for _, note in sorted(notes.items()) if note.data]


async def cleared(mirror):
    with trio.fail_after(PATIENCE):
        while len(mirror.quarantine):
            await mirror.status._changed.wait()


@pytest.mark.parametrize("acl", [MAY_READ, MAY_NOTHING])
async def test_unwritable_znode_stops_nothing_else(connect, acl):
    source = Source(build.broker(1), *topics(3))
    async with (
        running(connect, source, verify_interval_seconds=0.2) as mirror,
        connected(connect, auth=OTHER) as other,
    ):
        await in_step(mirror, source)
        await allow(other, "/config/topics/topic-1", acl)
        source.say(
            build.config(2, "topic-1", "retention.ms", "1"),
            build.config(2, "topic-2", "retention.ms", "2"),
            build.topic("new", T1 * 1),
            build.partition(T1, 0, [1]),
        )
        await in_step(mirror, source)
        assert mirror.status.claims == 1
        assert [e.path for e in mirror.quarantine] == ["/config/topics/topic-1"]
        assert b'"2"' in (await other.read("/config/topics/topic-2")).data
        assert await other.read("/brokers/topics/new/partitions/0/state") is not None
        # No notification reports a change that could not be written.
        assert await told(other) == ["topics/topic-2"]
        assert [d.path for d in await differences(other, source)] == ["/config/topics/topic-1"]
        # A znode that becomes accessible again is repaired without further action.
        await allow(other, "/config/topics/topic-1", OPEN_ACL_UNSAFE)
        await cleared(mirror)
        assert await differences(other, source) == ()
        assert await told(other) == ["topics/topic-2", "topics/topic-1"]
        assert mirror.status.claims == 1


async def test_secured_kafkas_tree_is_mirrored_as_permitted(connect):
    first = Source(build.broker(1), *topics(2))
    async with running(connect, first) as mirror:
        await in_step(mirror, first)
    source = Source(build.broker(1), *topics(4))
    async with connected(connect, auth=OTHER) as other:
        await allow(other, "/brokers/topics/topic-1/partitions/0/state", MAY_NOTHING)
        await allow(other, "/config/topics", MAY_READ)
        async with running(connect, source, verify_interval_seconds=0.2) as mirror:
            await in_step(mirror, source)
            refused = {e.path: e.action for e in mirror.quarantine}
            assert refused["/config/topics"] == "children"
            assert refused["/brokers/topics/topic-1/partitions/0/state"] == "read"
            assert await other.read("/brokers/topics/topic-4/partitions/1/state") is not None
            found = {d.path: d.kind for d in await differences(other, source)}
            assert found == {
                "/config/topics/topic-3": "missing",
                "/config/topics/topic-4": "missing",
            }
            await allow(other, "/config/topics", OPEN_ACL_UNSAFE)
            await allow(other, "/brokers/topics/topic-1/partitions/0/state", OPEN_ACL_UNSAFE)
            await cleared(mirror)
            assert await differences(other, source) == ()
            assert mirror.status.claims == 1


async def test_undeletable_extra_znode_stops_nothing(connect):
    source = Source(build.broker(1), *topics(1))
    async with (
        running(connect, source, verify_interval_seconds=0.2) as mirror,
        connected(connect, auth=OTHER) as other,
    ):
        await in_step(mirror, source)
        at_once = (
            other._client.transaction()
        )  # otherwise the mirror may delete it before it is locked
        at_once.create("/brokers/topics/locked", acl=MAY_READ)
        at_once.create("/brokers/topics/locked/child")
        at_once.create("/brokers/topics/free")
        await other._answer(at_once.commit_async())
        with trio.fail_after(PATIENCE):
            while await other.read("/brokers/topics/free") is not None:
                await mirror.status._changed.wait()
        source.say(build.config(2, "topic-1", "retention.ms", "1"))
        await in_step(mirror, source)
        found = {d.path: d.kind for d in await differences(other, source)}
        assert found == dict.fromkeys(
            ["/brokers/topics/locked", "/brokers/topics/locked/child"], "extra"
        )
        assert mirror.status.claims == 1


async def test_chain_of_strange_znodes_delays_nothing(connect, monkeypatch):
    """Each level is a round trip: thousands would delay all other changes for a minute."""
    source = Source(build.broker(1), *topics(1))
    asked = []
    read_level = Keeper._read_level

    async def counted(keeper, level, found):
        asked.append(max(path.count("/") for path in level))
        return await read_level(keeper, level, found)

    async with connected(connect) as other:
        for path in ("/", "/brokers", "/brokers/topics"):
            await other.ensure(path, None)
        path = "/brokers/topics/strange"
        for _ in range(60):
            await other.ensure(path, None)
            path += "/a"
        monkeypatch.setattr(Keeper, "_read_level", counted)
        async with running(connect, source) as mirror:
            await in_step(mirror, source)
            source.say(build.config(2, "topic-1", "retention.ms", "1"))
            await in_step(mirror, source)
            assert max(asked) == len(["brokers", "topics", "strange"]) + LEVELS_MAX - 1
            assert mirror.status.claims == 1
            assert [(entry.action, entry.reason) for entry in mirror.quarantine] == [
                ("delete", "NotEmpty")
            ]


async def test_many_strange_znodes_cause_few_lines(connect, caplog):
    source = Source(build.broker(1), *topics(1))
    async with connected(connect, auth=OTHER) as other:
        for path in ("/", "/brokers", "/brokers/topics"):
            await other.ensure(path, None)
        at_once = other._client.transaction()
        for number in range(100):
            at_once.create(f"/brokers/topics/strange-{number}", acl=MAY_READ)
            at_once.create(f"/brokers/topics/strange-{number}/child")
        await other._answer(at_once.commit_async())
        async with running(connect, source) as mirror:
            await in_step(mirror, source)
            assert len(mirror.quarantine) == 100
    held_back = [record for record in caplog.records if record.msg.startswith("Left out")]
    assert 0 < len(held_back) <= LINES_MAX


async def test_unwritable_reports_are_logged(connect, caplog):
    source = Source(build.broker(1), *topics(1))
    async with connected(connect, auth=OTHER) as other:
        async with running(connect, source) as mirror:
            await in_step(mirror, source)
            await other.ensure("/trimaran", None)
        await allow(other, "/trimaran", MAY_READ)
        async with running(connect, source) as mirror:
            await in_step(mirror, source)
            with trio.fail_after(PATIENCE):
                while "zk status cannot be told" not in caplog.text:  # noqa: ASYNC110 - a log wakes nobody
                    await trio.sleep(POLL_SECONDS)
    assert "zk status cannot be told of this mirror: /trimaran" in caplog.text


async def test_children_of_unlocked_parent_are_created_soon(connect):
    """No verification is needed."""
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror, connected(connect, auth=OTHER) as other:
        await in_step(mirror, source)
        await allow(other, "/config/topics", MAY_READ)
        source.say(build.topic("new", T1), build.partition(T1, 0, [1]))
        await in_step(mirror, source)
        assert [e.path for e in mirror.quarantine] == ["/config/topics"]
        await allow(other, "/config/topics", OPEN_ACL_UNSAFE)
        await cleared(mirror)
        assert await differences(other, source) == ()
        assert mirror.status.verifications == 0


async def test_topic_too_large_for_zookeeper_is_omitted_whole(connect, monkeypatch):
    monkeypatch.setattr("trimaran.zkcompat.mirroring.writer.BATCH_BYTES_MAX", 2000)
    large = [build.partition(T1, index, [1, 2, 3]) for index in range(200)]
    source = Source(build.topic("large", T1), *large, *topics(2))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        (entry,) = mirror.quarantine
        assert entry.path == "/brokers/topics/large"
        assert "more than the 2000 of a transaction" in entry.sentence()
        source.say(build.change(T1, 7, isr=[2], leader=2), build.remove_topic(bytes(15) + b"\x01"))
        await in_step(mirror, source)
        assert await person.children("/brokers/topics") == ["topic-2"]
        found = {d.path.split("/")[3] for d in await differences(person, source)}
        assert found == {"large"}
        # The topic is mirrored once it fits a transaction.
        monkeypatch.setattr("trimaran.zkcompat.mirroring.writer.BATCH_BYTES_MAX", 200_000)
        await cleared(mirror)
        assert await differences(person, source) == ()
        assert mirror.status.claims == 1


async def test_unwritable_claim_is_named_and_retried(connect, caplog):
    source = Source(build.broker(1))
    async with connected(connect, auth=OTHER) as other:
        for path in ("/", "/controller_epoch"):
            await other.ensure(path, b"7")
        await allow(other, "/controller_epoch", MAY_READ)
        async with running(connect, source) as mirror:
            await reached(mirror, lambda s: "/controller_epoch: NoAuth" in s.last_problem)
            assert "/controller_epoch: NoAuth; give the mirror's user all rights" in caplog.text
            await allow(other, "/controller_epoch", OPEN_ACL_UNSAFE)
            await in_step(mirror, source)
            assert mirror.status.claims == 1
