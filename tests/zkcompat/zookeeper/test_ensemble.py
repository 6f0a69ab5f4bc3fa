"""An ensemble of three: the mirror continues on another server, and waits for a majority."""

import pytest
import trio

from tests.zkcompat import build
from tests.zkcompat.conftest import needs_zookeeper
from tests.zkcompat.rig import PATIENCE, Source, connected, differences, reached, running, topics
from tests.zkcompat.zookeeper.ensemble import ensemble_of_three
from trimaran.zkcompat.zookeeper import server_process as zookeeper_process

POLL_SECONDS = 0.05

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


@pytest.fixture
def ensemble(tmp_path, monkeypatch):
    needs_zookeeper()
    monkeypatch.setattr(zookeeper_process, "READY_SECONDS", 60.0)
    with ensemble_of_three(tmp_path, reads_alone=True) as found:
        yield found


async def shown(mirror, source):
    await reached(mirror, lambda s: s.state == "in step" and s.published_offset == source.offset)


async def test_session_survives_changing_servers(ensemble, caplog):
    source = Source(build.broker(1), *topics(3))
    async with running(f"{ensemble.connect}/kafka", source, session_timeout_ms=40_000) as mirror:
        await shown(mirror, source)
        session = mirror.keeper.session_id
        leader = ensemble.leader()
        ensemble.kill(leader)
        source.say(build.fence(1))
        await shown(mirror, source)
        # Without a majority no znode is written, and the mirror does not end.
        other = next(iter(ensemble.servers))
        ensemble.kill(other)
        source.say(build.unfence(1), build.broker(2))
        await reached(mirror, lambda s: s.state == "connecting")
        # The last server is read-only and refuses the mirror's session: the mirror waits.
        (last,) = ensemble.servers
        with trio.fail_after(PATIENCE):
            while ensemble.mode(last) != "read-only":  # noqa: ASYNC110 - no event tells what a server does
                await trio.sleep(POLL_SECONDS)
            while "is read-only: it has no majority" not in caplog.text:  # noqa: ASYNC110 - nor does a log
                await trio.sleep(POLL_SECONDS)
        await trio.to_thread.run_sync(ensemble.start, leader)
        await shown(mirror, source)
        assert mirror.keeper.session_id == session
        assert "turns our connection away" not in caplog.text
        async with connected(f"{ensemble.connect}/kafka") as person:
            assert await differences(person, source) == ()
