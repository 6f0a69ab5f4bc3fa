"""One znode that ZooKeeper does not let the mirror read or write is held back; everything else is mirrored."""

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
from zkcompat.mirroring.quarantine import HeldBack, Quarantine
from zkcompat.mirroring.slices import LEVELS_MAX
from zkcompat.mirroring.writer import LINES_MAX
from zkcompat.operations import Kind, Operation
from zkcompat.zookeeper.keeper import Keeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

POLL_SECONDS = 0.02
OTHER = [("digest", "somebody:else")]
# Rights of everybody else; `other` may give them back.
MAY_READ = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
MAY_NOTHING = CREATOR_ALL_ACL


async def allow(keeper, path, acl):
    await keeper._answer(keeper._client.set_acls_async(path, acl), path)


async def told(keeper):
    """The entities that notes of changed configs name."""
    notes = await keeper.read_tree(["/config/changes"], [])
    return [json.loads(one.data)["entity_path"] for _, one in sorted(notes.items()) if one.data]


async def cleared(mirror):
    with trio.fail_after(PATIENCE):
        while len(mirror.quarantine):
            await mirror.status._changed.wait()


@pytest.mark.parametrize("acl", [MAY_READ, MAY_NOTHING])
async def test_a_znode_that_may_not_be_written_stops_nothing_else(connect, acl):
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
        # Nobody is told of a change that could not be written.
        assert await told(other) == ["topics/topic-2"]
        assert [d.path for d in await differences(other, source)] == ["/config/topics/topic-1"]
        # What is allowed again is repaired without anybody's help.
        await allow(other, "/config/topics/topic-1", OPEN_ACL_UNSAFE)
        await cleared(mirror)
        assert await differences(other, source) == ()
        assert await told(other) == ["topics/topic-2", "topics/topic-1"]
        assert mirror.status.claims == 1


async def test_a_tree_that_a_secured_kafka_left_is_mirrored_as_far_as_it_may_be(connect):
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


async def test_an_extra_znode_that_cannot_be_deleted_stops_nothing(connect):
    source = Source(build.broker(1), *topics(1))
    async with (
        running(connect, source, verify_interval_seconds=0.2) as mirror,
        connected(connect, auth=OTHER) as other,
    ):
        await in_step(mirror, source)
        at_once = other._client.transaction()  # or the mirror may delete it before it is locked
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
    """Each level is a round trip: thousands would hold all other changes back for a minute."""
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
            assert [(one.action, one.reason) for one in mirror.quarantine] == [
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
    held_back = [one for one in caplog.records if one.msg.startswith("Left out")]
    assert 0 < len(held_back) <= LINES_MAX


async def test_reports_that_may_not_be_written_are_said(connect, caplog):
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


async def test_what_waits_for_a_locked_parent_is_made_as_soon_as_it_may_be(connect):
    """Without a verification."""
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


async def test_a_topic_too_large_for_zookeeper_is_left_out_with_all_its_znodes(
    connect, monkeypatch
):
    monkeypatch.setattr("zkcompat.mirroring.writer.BATCH_BYTES_MAX", 2000)
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
        # Once it is small enough to be shown, it is.
        monkeypatch.setattr("zkcompat.mirroring.writer.BATCH_BYTES_MAX", 200_000)
        await cleared(mirror)
        assert await differences(person, source) == ()
        assert mirror.status.claims == 1


async def test_a_claim_that_may_not_be_written_is_tried_again_and_named(connect, caplog):
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


def operation(kind, path, **members):
    return Operation(kind, path, "Name", "sentence", **members)


def test_what_is_refused_is_tried_again_as_often_as_it_is_cheap():
    now = 0.0
    quarantine = Quarantine(lambda: now)
    wanted = operation(Kind.SET, "/a/b")
    waits = []
    for cpu_seconds in (0.001, 0.01, 0.05, 0.3, 5.0, 0.002, 0.0):
        quarantine.refused(wanted, "NoAuth")
        quarantine.tried(cpu_seconds)
        assert quarantine.holds(wanted)
        waits.append(quarantine.next_due() - now)
        assert quarantine.take_due() == []
        now = quarantine.next_due()
        assert [entry.path for entry in quarantine.take_due()] == ["/a/b"]
        assert not quarantine.holds(wanted)
    assert waits == pytest.approx([1, 1, 5, 30, 60, 1, 1])
    quarantine.settled(["/a/b"])
    assert len(quarantine) == 0
    assert quarantine.next_due() == float("inf")


def test_all_that_is_refused_is_tried_again_together():
    """Else thousands, each at its own time, would be thousands of cheap tries a second."""
    now = 0.0
    quarantine = Quarantine(lambda: now)
    for number in range(100):
        quarantine.add(f"/a/{number}", "set", "NoAuth")
        now += 0.009
    now = quarantine.next_due()
    assert now == 1.0
    assert len(quarantine.take_due()) == 100
    assert quarantine.take_due() == []


def test_the_right_to_create_is_the_parents():
    quarantine = Quarantine(lambda: 0.0)
    quarantine.refused(operation(Kind.CREATE, "/a/b"), "NoAuth")
    assert quarantine.holds(operation(Kind.CREATE, "/a/c"))
    assert quarantine.holds(operation(Kind.DELETE, "/a/c"))
    assert not quarantine.holds(operation(Kind.SET, "/a/c"))
    assert not quarantine.holds(operation(Kind.CREATE, "/b/c"))
    quarantine.succeeded([operation(Kind.CREATE, "/a/d")])
    assert len(quarantine) == 0


def test_what_depends_on_something_left_out_is_left_out():
    held = HeldBack()
    held.add(operation(Kind.CREATE, "/t/a"))
    held.add(operation(Kind.DELETE, "/t/b/partitions/0"))
    assert held.touches(operation(Kind.CREATE, "/t/a/partitions/0"))
    assert held.touches(operation(Kind.SET, "/t/a"))
    assert held.touches(operation(Kind.DELETE, "/t/b"))
    assert not held.touches(operation(Kind.DELETE, "/t/c"))
    assert not held.touches(operation(Kind.SET, "/t/b"))


def test_notes_tell_of_nothing_that_is_left_out():
    held = HeldBack()
    held.add(operation(Kind.SET, "/config/topics/a"))
    prefix = "/config/changes/config_change_"
    assert held.touches(operation(Kind.CREATE, prefix, sequential=True, about="/config/topics/a"))
    assert not held.touches(
        operation(Kind.CREATE, prefix, sequential=True, about="/config/topics/b")
    )
    assert not held.touches(operation(Kind.SET, "/config/topics/b"))
