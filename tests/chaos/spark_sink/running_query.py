"""The process of a query: its events, the processes to kill, and its end."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.chaos.spark_sink import processes
from tests.cluster.processes import ROOT, until

# The start of a JVM and two executors on a busy machine, and a broker that fails over meanwhile.
EVENT_SECONDS_MAX = 600.0
GONE_SECONDS_MAX = 60.0


class RunningQuery:
    """A running driver. `errors` are the errors with which its query has ended."""

    def __init__(self, bootstrap: str, folder: Path, tasks: int) -> None:
        self._log = (folder / "spark.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.spark_sink.query", bootstrap, folder, str(tasks)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
        )
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.errors: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._events.put(json.loads(line))
        self._events.put({"over": True})

    def wait_for(self, kind: str) -> None:
        """Waits for the next event of this kind. Raises AssertionError if there is none in time, or if the process has
        ended.
        """
        deadline = time.monotonic() + EVENT_SECONDS_MAX
        while True:
            left = deadline - time.monotonic()
            try:
                event = self._events.get(timeout=max(0.0, left))
            except queue.Empty:
                raise AssertionError(
                    f"no event {kind!r} of the query within {EVENT_SECONDS_MAX:g} s; errors: {self.errors}"
                ) from None
            self._note(event)
            if kind in event:
                return
            assert "over" not in event, f"the driver has ended by itself; errors: {self.errors}"

    def drain(self) -> None:
        """Records the events that have arrived."""
        while not self._events.empty():
            self._note(self._events.get())

    def _note(self, event: dict[str, Any]) -> None:
        if "error" in event:
            self.errors.append(event["error"])

    def processes(self) -> list[processes.Process]:
        """Returns the driver and all its descendants that still run."""
        return processes.of_session(processes.processes(), self._process.pid)

    def kill_driver(self) -> None:
        """Kills the driver's JVM and its Python; executors notice it, and end a moment later."""
        processes.kill(processes.drivers(self.processes()))
        self._over()

    def kill_all(self) -> None:
        """Kills all processes, and waits until none is left."""

        def left() -> bool:
            found = self.processes()
            processes.kill(process.pid for process in found)
            return bool(found)

        until(lambda: not left(), "the end of all processes of a query", GONE_SECONDS_MAX, 0.1)
        self._over()

    def _over(self) -> None:
        self._process.wait()
        self._reader.join()
        self.drain()
        self._log.close()
