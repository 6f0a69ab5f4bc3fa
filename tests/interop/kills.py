"""SIGKILL for one node of a cluster after another, during a run on the cluster."""

import random
import threading
import time

# Used by `python -m tests.interop.suites`, and set by pytest's option --minutes.
MINUTES = "TRIMARAN_SUITE_MINUTES"
EVERY_SECONDS = 20.0
RESTART_AFTER_SECONDS = 1.0


class Kills:
    """A block during which a broker and the active controller are killed in turn, and started again a second later.
    `count` has the number by role. An error in a kill is raised at the end of the block, or by `stop`.
    """

    def __init__(self, cluster, seed=1):
        self.count = {"broker": 0, "controller": 0}
        self._cluster = cluster
        self._prng = random.Random(seed)
        self._stop = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends the kills; waits until all nodes are up."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self):
        try:
            while not self._stop.wait(EVERY_SECONDS / 2):
                self._kill_one()
                self._stop.wait(EVERY_SECONDS / 2)
        except AssertionError as error:
            self._error = error

    def _kill_one(self):
        role = min(self.count, key=self.count.__getitem__)
        if role == "broker":
            victim = self._prng.choice(sorted(self._cluster.brokers()))
        else:
            victim = self._cluster.active_controller()
        self._cluster.kill(victim)
        self.count[role] += 1
        time.sleep(RESTART_AFTER_SECONDS)
        self._cluster.restart(victim)


def seconds_of(minutes):
    """Returns the duration of a run, which is long enough for a kill in each role."""
    return max(60.0 * minutes, 2.5 * EVERY_SECONDS)
