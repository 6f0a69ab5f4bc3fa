"""Requests for a comparison of everything, including those that cannot be removed."""

import pytest

from tests.zkcompat import build
from tests.zkcompat.rig import Source, connected, in_step, reached, running, topics
from trimaran.zkcompat.mirroring import resync
from trimaran.zkcompat.tree.claim import TransactionStep

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


async def test_remaining_request_is_answered_once(connect, monkeypatch, caplog):
    """Otherwise a znode below it would make the mirror read the whole tree endlessly."""
    monkeypatch.setattr(resync, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(resync, "RETRY_SECONDS", 0.01)
    source = Source(build.broker(1), *topics(3))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        await person.ensure("/trimaran", None)
        child = f"{resync.PATH}/child"
        await person.transact(
            [TransactionStep("create", resync.PATH), TransactionStep("create", child)]
        )
        await reached(mirror, lambda status: status.verifications == 1)
        for number in range(20):
            source.say(build.config(2, "topic-1", "retention.ms", str(number)))
            await in_step(mirror, source)
        await person.transact([TransactionStep("delete", child)])
        assert await person.wait_deleted(resync.PATH, 20.0)
        assert mirror.status.verifications == 1
        assert caplog.text.count("The request for a resynchronisation stays") == 1
        await person.ensure(resync.PATH, None)
        await reached(mirror, lambda status: status.verifications == 2)
        assert await person.wait_deleted(resync.PATH, 20.0)
