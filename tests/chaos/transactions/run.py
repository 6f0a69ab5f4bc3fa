"""One run of `./dev chaos --transactions`: a cluster, its load, faults for a minute, and the outcome.

A producer fills a topic; members of one group copy it to another in transactions, every tenth of which is aborted; a
reader reads concurrently. Once all faults have ended, everything must arrive: each acknowledged input exactly once,
nothing of an aborted transaction. The reader must reach the end, so no last stable offset may be stuck. A run without a
fault, a commit or an abort counts as failed. The environment variable `CHAOS_SECONDS` sets how long faults are
injected.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.exactly_once import judge
from tests.chaos.transactions.clusters import SYSTEMS, Cluster
from tests.chaos.transactions.copying import COPIERS, PARTITIONS, SOURCE, TARGET, Run, Task
from tests.chaos.transactions.faults import Faults

FAULTS_SECONDS = float(os.environ.get("CHAOS_SECONDS", "60"))
ARRIVE_SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run; `arrived_seconds` is the time from the last fault's end to the last input's arrival at the
    reader.
    """

    is_ok: bool
    arrived_seconds: float
    text: str


def play(system: str, seed: int, data: Path) -> Outcome:
    """Plays one run. Raises ClientHangs, KafkaException or AssertionError if the run has no valid outcome."""
    with SYSTEMS[system](data) as cluster:
        cluster.create_topics(PARTITIONS, SOURCE, TARGET)
        return _play(cluster, seed)


def _play(cluster: Cluster, seed: int) -> Outcome:
    run, faults = Run(cluster.bootstrap, seed), Faults(cluster, seed)
    run.begin_at_zero()
    source = Task(run.fill)
    copiers = [Task(lambda n=n: run.copy(n)) for n in range(COPIERS)]  # type: ignore[misc]
    reader = Task(run.read_along)
    faults.play(FAULTS_SECONDS)
    healed = time.monotonic()
    run.stop_source.set()
    source.join()
    arrived = _wait_for_all(run, healed + ARRIVE_SECONDS_MAX) - healed
    run.stop.set()
    for task in (*copiers, reader):
        task.join()
    output = run.read_all(lambda found: run.acked <= set(found.values()))
    verdict = judge(run.sent, run.acked, output, run.along)
    is_ok = verdict.ok and min(faults.count.total(), run.commits, run.aborts) > 0
    played = ", ".join(f"{count} {kind}" for kind, count in sorted(faults.count.items()))
    text = (
        f"{played}; inputs {len(run.acked)}  commits {run.commits}  aborts {run.aborts}  members anew {run.restarts}  "
        f"calls without end {run.hangs}  {verdict}  arrived after {arrived:.1f} s"
    )
    return Outcome(is_ok, arrived, text)


def _wait_for_all(run: Run, deadline: float) -> float:
    """Waits until the reader has seen all acknowledged values; returns the time, or the deadline."""
    while time.monotonic() < deadline:
        if run.acked <= {value for _, value in list(run.along)}:
            return time.monotonic()
        time.sleep(0.2)
    return deadline
