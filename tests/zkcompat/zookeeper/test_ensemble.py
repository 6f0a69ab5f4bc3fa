"""An ensemble of three: the mirror goes on at another server, and waits for a majority."""

import threading

import pytest
import trio

from node.runtime.ports import port_of, reserve
from tests.zkcompat import build
from tests.zkcompat.conftest import needs_zookeeper
from tests.zkcompat.rig import Source, connected, differences, reached, running, topics
from zkcompat.zookeeper import server_process as zookeeper_process
from zkcompat.zookeeper.server_process import four_letter_word, start_zookeeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


class Ensemble:
    def __init__(self, folder, ports):
        self._folder = folder
        self._ports = ports
        self.servers = {}

    @property
    def connect(self):
        return ",".join(f"127.0.0.1:{ports[0]}" for ports in self._ports)

    def start(self, *numbers):
        """All of them together: one alone waits for a majority."""
        threads = [threading.Thread(target=self._start, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def kill(self, *numbers):
        for number in numbers:
            self.servers.pop(number).kill()

    def leader(self):
        return next(number for number, one in self.servers.items() if "leader" in _mode(one))

    def _start(self, number):
        folder = self._folder / str(number)
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "data" / "myid").write_text(str(number))
        settings = {
            f"server.{one}": f"127.0.0.1:{quorum}:{election}"
            for one, (_, quorum, election) in enumerate(self._ports)
        }
        self.servers[number] = start_zookeeper(
            folder,
            self._ports[number][0],
            tick_ms=200,
            settings={**settings, "initLimit": "50", "syncLimit": "25"},
        )


def _mode(server):
    words = four_letter_word(server.host, server.port, b"srvr").splitlines()
    return next((line for line in words if line.startswith("Mode")), "")


@pytest.fixture
def ensemble(tmp_path, monkeypatch):
    needs_zookeeper()
    monkeypatch.setattr(zookeeper_process, "READY_SECONDS", 60.0)
    held = [[reserve() for _ in range(3)] for _ in range(3)]
    ports = [[port_of(one.__enter__()) for one in server] for server in held]
    found = Ensemble(tmp_path, ports)
    try:
        found.start(0, 1, 2)
        yield found
    finally:
        found.kill(*found.servers)
        for server in held:
            for one in server:
                one.__exit__(None, None, None)


async def shown(mirror, source):
    await reached(mirror, lambda s: s.state == "in step" and s.published_offset == source.offset)


async def test_servers_come_and_go_and_the_session_stays(ensemble):
    source = Source(build.broker(1), *topics(3))
    async with running(f"{ensemble.connect}/kafka", source, session_timeout_ms=40_000) as mirror:
        await shown(mirror, source)
        session = mirror.keeper.session_id
        leader = ensemble.leader()
        ensemble.kill(leader)
        source.say(build.fence(1))
        await shown(mirror, source)
        # Without a majority nothing is written, and nothing is given up.
        other = next(iter(ensemble.servers))
        ensemble.kill(other)
        source.say(build.unfence(1), build.broker(2))
        await reached(mirror, lambda s: s.state == "connecting")
        await trio.to_thread.run_sync(ensemble.start, leader)
        await shown(mirror, source)
        assert mirror.keeper.session_id == session
        async with connected(f"{ensemble.connect}/kafka") as person:
            assert await differences(person, source) == ()
