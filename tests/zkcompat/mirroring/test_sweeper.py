"""Old notifications are deleted below all their roots; young ones stay."""

import pytest
import trio

from tests.zkcompat import build
from tests.zkcompat.rig import PATIENCE, Source, connected, in_step, running, topics
from trimaran.zkcompat.mirroring import sweeper
from trimaran.zkcompat.sections.notes import NOTE_ROOTS
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.znodes.parents import TOKEN_PARENTS

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


async def assert_gone(keeper, root):
    with trio.fail_after(PATIENCE):
        while await keeper.children(root):
            await trio.lowlevel.checkpoint()


async def test_old_notes_of_all_roots_are_swept(connect, monkeypatch):
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror:
        await in_step(mirror, source)
    async with connected(connect) as person:
        for path in TOKEN_PARENTS:  # as brokers with tokens leave them
            await person.ensure(path, None)
        for root in NOTE_ROOTS:
            for _ in range(3):
                await person.transact(
                    [TransactionStep("create", f"{root}/note_", b"x", sequential=True)] * 150
                )
        monkeypatch.setattr(sweeper, "LIFETIME_MS", 0)
        async with running(connect, source):
            for root in NOTE_ROOTS:
                await assert_gone(person, root)


async def test_young_notes_stay_and_too_many_go(connect, monkeypatch):
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        for number in range(30):
            source.say(build.config(2, "topic-1", "retention.ms", str(number)))
            await in_step(mirror, source)
        assert len(await person.children("/config/changes")) == 30
        monkeypatch.setattr(sweeper, "NOTES_MAX", 10)
        monkeypatch.setattr(sweeper, "IN_TRANSACTION", 5)
        mirror.keeper._on_state(mirror.keeper._client, "LOST")  # the next tenure sweeps immediately
        mirror.keeper._on_state(mirror.keeper._client, "CONNECTED")
        with trio.fail_after(PATIENCE):
            while len(await person.children("/config/changes")) != 10:
                await trio.lowlevel.checkpoint()
        left = await person.children("/config/changes")
        assert left == [f"config_change_{number:010d}" for number in range(20, 30)]


async def test_locked_or_misnamed_note_delays_no_other(connect, monkeypatch):
    """Notifications without a number come first; if one of these is young, others may still be old."""
    source = Source(build.broker(1), *topics(1))
    root = "/config/changes"
    async with running(connect, source) as mirror:
        await in_step(mirror, source)
    own = connected(connect, auth=[("digest", "somebody:else")], secured=True)
    async with connected(connect) as person, own as somebody:
        await somebody.transact([TransactionStep("create", f"{root}/note_", b"x", sequential=True)])
        (locked,) = await person.children(root)
        await somebody.hide(f"{root}/{locked}")
        await person.transact(
            [TransactionStep("create", f"{root}/note_", b"x", sequential=True)] * 10
        )
        newest = (await person.read(f"{root}/note_{10:010d}")).created_ms
        created = newest
        while created <= newest:
            await person.transact([TransactionStep("create", f"{root}/strange", b"x")])
            created = (await person.read(f"{root}/strange")).created_ms
            if created <= newest:
                await person.transact([TransactionStep("delete", f"{root}/strange")])
        monkeypatch.setattr(sweeper, "IN_TRANSACTION", 5)
        monkeypatch.setattr(sweeper, "LIFETIME_MS", 0)
        monkeypatch.setattr(sweeper, "now_ms", lambda: created)
        async with running(connect, source):
            with trio.fail_after(PATIENCE):
                while len(left := await person.children(root)) > 2:
                    await trio.lowlevel.checkpoint()
        assert left == [locked, "strange"]
