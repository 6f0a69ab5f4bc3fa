"""An ensemble of ZooKeeper servers, which tests kill and start by number."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager

from trimaran.node.runtime.ports import port_of, reserve
from trimaran.zkcompat.zookeeper.server_process import four_letter_word, start_zookeeper


class Ensemble:
    """`ports` has three for each server: for clients, the quorum and elections. With `reads_alone` a server without a
    majority still answers read-only clients.
    """

    def __init__(self, folder, ports, *, reads_alone=False):
        self._reads_alone = reads_alone
        self._folder = folder
        self._ports = ports
        self.servers = {}

    @property
    def connect(self):
        return ",".join(f"127.0.0.1:{ports[0]}" for ports in self._ports)

    def start(self, *numbers):
        """Starts all servers together, because a single server waits for a majority."""
        threads = [threading.Thread(target=self._start, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self.servers.keys() >= {*numbers}, f"of the servers {numbers} only {[*self.servers]}"

    def kill(self, *numbers):
        for number in numbers:
            self.servers.pop(number).kill()

    def leader(self):
        return next(number for number, server in self.servers.items() if "leader" in _mode(server))

    def mode(self, number):
        """Returns the server's mode by ZooKeeper's name, or an empty text while the server does not serve."""
        try:
            return _mode(self.servers[number]).removeprefix("Mode: ")
        except OSError:
            return ""

    def _start(self, number):
        folder = self._folder / str(number)
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "data" / "myid").write_text(str(number))
        settings = {
            f"server.{port}": f"127.0.0.1:{quorum}:{election}"
            for port, (_, quorum, election) in enumerate(self._ports)
        }
        self.servers[number] = start_zookeeper(
            folder,
            self._ports[number][0],
            tick_ms=200,
            settings={**settings, "initLimit": "50", "syncLimit": "25"},
            jvm_options=("-Dreadonlymode.enabled=true",) if self._reads_alone else (),
        )


@contextmanager
def ensemble_of_three(folder, *, reads_alone=False):
    """Runs three servers; those still running at the end are killed."""
    with ExitStack() as held:
        ports = [[port_of(held.enter_context(reserve())) for _ in range(3)] for _ in range(3)]
        found = Ensemble(folder, ports, reads_alone=reads_alone)
        try:
            found.start(0, 1, 2)
            yield found
        finally:
            found.kill(*list(found.servers))


def _mode(server):
    words = four_letter_word(server.host, server.port, b"srvr").splitlines()
    return next((line for line in words if line.startswith("Mode")), "")
