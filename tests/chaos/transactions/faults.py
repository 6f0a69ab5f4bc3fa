"""Random faults by seed, one after another, on a cluster under load; all have ended when `play` returns. A killed node
is restarted after a second. A pause or a cut lasts up to `STAND_SECONDS_MAX`, which is longer than a broker's session,
so that a former leader returns.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Mapping

from tests.chaos.transactions import links
from tests.chaos.transactions.clusters import BROKERS, CONTROLLERS, Cluster, fill, make_room

KILL, PAUSE, CUT, FULL, MOVE = "kill", "pause", "cut", "full disk", "move of leaders"
WEIGHTS = {KILL: 5, PAUSE: 2, CUT: 2, FULL: 2}
CONTROLLER_SHARE = 0.25
DOWN_SECONDS = 1.0
STAND_SECONDS_MAX = 12.0
FULL_SECONDS = 3.0
BETWEEN_SECONDS = 1.0
SIDES = ((links.PEERS,), (links.CLIENTS,), (links.PEERS, links.CLIENTS))
WAYS = ((links.REQUESTS,), (links.ANSWERS,), (links.REQUESTS, links.ANSWERS))


class Faults:
    """Faults of a run; `count` has their number by kind."""

    def __init__(self, cluster: Cluster, seed: int, weights: Mapping[str, int] = WEIGHTS) -> None:
        self.count: Counter[str] = Counter()
        self._cluster = cluster
        self._prng = random.Random(seed)
        self._kinds = [kind for kind in weights if kind != FULL or cluster.has_disks]
        self._weights = weights

    def play(self, seconds: float) -> None:
        """Injects faults for this time; the last one may end later."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._play_one()
            time.sleep(BETWEEN_SECONDS)

    def _play_one(self) -> None:
        (kind,) = self._prng.choices(self._kinds, [self._weights[kind] for kind in self._kinds])
        is_controller = kind in (KILL, PAUSE) and self._prng.random() < CONTROLLER_SHARE
        victim = self._prng.choice(CONTROLLERS if is_controller else BROKERS)
        stand = self._prng.uniform(0.5, STAND_SECONDS_MAX)
        self.count[f"{kind} of a controller" if is_controller else kind] += 1
        match kind:
            case "kill":
                self._cluster.kill(victim)
                time.sleep(DOWN_SECONDS)
                self._cluster.start(victim)
            case "pause":
                self._cluster.send(victim, signal.SIGSTOP)
                time.sleep(stand)
                self._cluster.send(victim, signal.SIGCONT)
            case "cut":
                door = self._cluster.doors[victim]
                door.shut(self._prng.choice(SIDES), self._prng.choice(WAYS))
                time.sleep(stand)
                door.open()
            case "move of leaders":
                self._cluster.elect_preferred_leaders()
            case _:
                fill(self._cluster.directory(victim))
                time.sleep(FULL_SECONDS)
                make_room(self._cluster.directory(victim))
                self._cluster.start(victim)
