"""`./dev chaos [RUNS]`: kills real processes with SIGKILL under load; afterwards every acknowledged record must be at
its acknowledged offset. A run has 3 controllers, 3 brokers, ZooKeeper and a mirror, and producers with acks=all. Every
two seconds for half a minute, a random controller or broker is killed with SIGKILL, and started again a second later.
Then everything is read back, and `zk verify` must find no difference. A run without an acknowledgement or a killed node
counts as failed. Failed cases are never repeated. The environment variable `CHAOS_SECONDS` sets for how long nodes are
killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.history import History, ProducerLoad, audit

TOPIC, PARTITIONS = "chaos", 6
KILL_EVERY_SECONDS, RESTART_AFTER_SECONDS = 2.0, 1.0
KILL_FOR_SECONDS = float(os.environ.get("CHAOS_SECONDS", "30"))
PRODUCERS = 2
SETTLE_SECONDS_MAX = 60.0


@dataclass
class Outcome:
    """The result of one run."""

    seed: int
    kills: dict[str, int]
    acked: int
    unknown: int
    lost: int
    moved: int
    duplicates: int
    zk: str
    zk_ok: bool
    longest_silence: float
    seconds: float

    @property
    def ok(self) -> bool:
        return (
            self.zk_ok
            and self.acked > 0
            and sum(self.kills.values()) > 0
            and not (self.lost or self.moved or self.duplicates)
        )

    def __str__(self) -> str:
        kills = " ".join(f"{role}s {n}" for role, n in sorted(self.kills.items()))
        return (
            f"seed {self.seed}: {'ok' if self.ok else 'FAILED'}  killed {kills}  "
            f"acked {self.acked}  unknown {self.unknown}  lost {self.lost}  moved {self.moved}  "
            f"duplicates {self.duplicates}  longest silence {self.longest_silence:.1f} s  "
            f"zk: {self.zk}  ({self.seconds:.0f} s)"
        )


class LocalCluster:
    """A 3 + 3 cluster of ours, controlled by a user's commands."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.state = json.loads(self.run("up", "-d", *options, "-o", "json").stdout)

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "trimaran", *words, "--data", str(self.data)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"trimaran {' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    @property
    def bootstrap(self) -> str:
        return str(self.state["bootstrap"])

    def victims(self, *roles: str) -> list[dict[str, str]]:
        return [n for n in self.state["nodes"] if n["role"] in roles]


def kill_and_restart(
    cluster: LocalCluster, prng: random.Random, kills: dict[str, int], *roles: str
) -> None:
    """Kills nodes of these roles for `KILL_FOR_SECONDS`; every victim is running again at the end."""
    deadline = time.monotonic() + KILL_FOR_SECONDS
    while time.monotonic() < deadline:
        began = time.monotonic()
        victim = prng.choice(cluster.victims(*roles))
        cluster.run("chaos", "kill", victim["name"])
        kills[victim["role"]] = kills.get(victim["role"], 0) + 1
        time.sleep(RESTART_AFTER_SECONDS)
        cluster.run("chaos", "restart", victim["name"])
        time.sleep(max(0.0, KILL_EVERY_SECONDS - (time.monotonic() - began)))


def verify_zookeeper(cluster: LocalCluster) -> tuple[bool, str]:
    """Runs `zk verify` once the cluster has settled: the mirror may lag for a moment, but not for long."""
    done = cluster.run("zk", "verify", check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else "said nothing"


def one_run(seed: int, keep: Path | None) -> Outcome:
    began = time.monotonic()
    prng = random.Random(seed)
    data = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
    kills: dict[str, int] = {}
    cluster = LocalCluster(data, "--zk")
    try:
        cluster.run("topics", "create", TOPIC, "-p", str(PARTITIONS), "-r", "3")
        history = History()
        with ProducerLoad(cluster.bootstrap, TOPIC, PRODUCERS, history):
            kill_and_restart(cluster, prng, kills, "controller", "broker")
            history.wait_for_ack_after(time.monotonic(), SETTLE_SECONDS_MAX)
        verdict = audit(cluster.bootstrap, TOPIC, PARTITIONS, history)
        zk_ok, zk = verify_zookeeper(cluster)
        outcome = Outcome(
            seed=seed,
            kills=kills,
            acked=len(history.acked),
            unknown=history.unknown,
            lost=verdict.lost,
            moved=verdict.moved,
            duplicates=verdict.duplicates,
            zk=zk,
            zk_ok=zk_ok,
            longest_silence=history.longest_silence(),
            seconds=time.monotonic() - began,
        )
    except BaseException:
        _keep(data, keep, seed)
        raise
    finally:
        cluster.run("down", check=False)
    if not outcome.ok:
        _keep(data, keep, seed)
    shutil.rmtree(data, ignore_errors=True)
    return outcome


def _keep(data: Path, keep: Path | None, seed: int) -> None:
    if keep is not None:
        shutil.copytree(
            data, keep / f"seed-{seed}", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock")
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the first run; the next ones count up"
    )
    parser.add_argument("--keep", type=Path, help="keep the directories of failed runs here")
    arguments = parser.parse_args()
    outcomes = []
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        outcomes.append(one_run(seed, arguments.keep))
        print(outcomes[-1], flush=True)
    failed = [o.seed for o in outcomes if not o.ok]
    print(
        f"{len(outcomes)} runs, {len(failed)} failed {failed or ''}, {sum(o.acked for o in outcomes):,} records acked, "
        f"{sum(o.lost for o in outcomes)} lost, {sum(sum(o.kills.values()) for o in outcomes)} kills"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
