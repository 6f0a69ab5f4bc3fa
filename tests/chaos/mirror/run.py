"""`./dev chaos --mirror`: one fault after another around the ZooKeeper mirror, with each kind of quorum. Each fault has
a new ZooKeeper, new mirrors, and an eye that observes both sides from outside. Meanwhile a topic's config changes five
times per second. The results are the time from the end of the fault until ZooKeeper is in step, the findings of `zk
verify` after that, the time for which a live broker had no znode, the delay of other topics by one bad znode, and the
CPU use of a mirror during the fault. A failed case is not repeated.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.mirror.changes import Changes, Pulses
from tests.chaos.mirror.fault import BEHIND_SECONDS, CPU_SHARE, Fault
from tests.chaos.mirror.faults import FAULTS
from tests.chaos.mirror.outsider import BROKER, SECRETS, TOKEN
from tests.chaos.mirror.quorums import Quorum, kafkas, ours
from tests.chaos.mirror.scene import NotPossibleHere, Scene, scene
from tests.chaos.mirror.secured import secured
from tests.cluster.processes import trimaran
from trimaran.zkcompat.zookeeper import server_process

# Time after which a mirror that is not in step counts as failed.
PATIENCE_SECONDS = 15.0
# Three ZooKeeper servers start at once, next to a whole Apache Kafka cluster.
START_SECONDS = 60.0
QUORUMS = {"own": ours, "kafka": kafkas, "secured": secured}
HEADINGS = ("fault", "in step after", "at most", "brokers gone", "others behind", "CPU")


@dataclass
class Outcome:
    """The result of one fault with one quorum: the worst among all victims. Times are in seconds."""

    fault: Fault
    quorum: str
    converged: float = 0.0
    slowest: str = ""
    gone: float = 0.0
    behind: float = 0.0
    stood: float = 0.0
    cpu_seconds: float = 0.0
    verify: str = ""
    problem: str = ""
    skipped: str = ""

    @property
    def cpu(self) -> float:
        """The share of a CPU that the busiest mirror used during the fault."""
        return self.cpu_seconds / self.stood if self.stood else 0.0

    def misses(self) -> Iterator[str]:
        """Yields the missed targets as text."""
        if self.problem:
            yield self.problem
            return
        if self.converged > self.fault.mark_seconds:
            yield f"in step after {self.converged:.1f} s ({self.slowest})".replace(" ()", "")
        if self.gone > 0 and not self.fault.brokers_go:
            yield f"brokers gone for {self.gone:.2f} s"
        if self.behind > BEHIND_SECONDS and self.fault.one_znode:
            yield f"others {self.behind * 1e3:.0f} ms behind"
        if self.cpu > CPU_SHARE and not self.fault.is_load:
            yield f"CPU {self.cpu:.1%}"
        if self.verify:
            yield f"zk verify: {self.verify}"

    @property
    def ok(self) -> bool:
        return bool(self.skipped) or not any(self.misses())

    @property
    def verdict(self) -> str:
        return self.skipped or "; ".join(self.misses()) or "ok"

    def row(self) -> tuple[str, ...]:
        """Returns a row as in the docs, with the missed targets."""
        name = self.fault.name if self.verdict == "ok" else f"{self.fault.name} ({self.verdict})"
        mark = f"{self.fault.mark_seconds:.0f} s"
        if self.skipped or self.problem:
            return name, "", mark, "", "", ""
        behind = f"{self.behind * 1e3:.0f} ms" if self.fault.one_znode else ""
        gone = f"{self.gone:.2f} s" if self.gone else "never"
        work = ", which is work" if self.fault.is_load and self.cpu > CPU_SHARE else ""
        return name, f"{self.converged:.1f} s", mark, gone, behind, f"{self.cpu * 100:.1f} %{work}"


def table(outcomes: list[Outcome]) -> str:
    """Returns a table for each kind of quorum, as in the docs."""
    tables = []
    for quorum in dict.fromkeys(outcome.quorum for outcome in outcomes):
        found = [outcome.row() for outcome in outcomes if outcome.quorum == quorum]
        rows = [HEADINGS, ("---",) * len(HEADINGS), *found]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        tables.append("\n".join([f"{quorum}:", "", *lines]))
    return "\n\n".join(tables)


def play(fault: Fault, quorum: Quorum, name: str, folder: Path, changes: Changes) -> Outcome:
    """Runs one fault, once for each of its victims."""
    outcome = Outcome(fault, name)
    with scene(quorum, folder, changes, fault) as played:
        with Pulses(changes) as pulses:
            for victim in fault.victims:
                if victim in SECRETS and not quorum.zookeeper_user:
                    continue
                named = victim.replace(BROKER, str(min(quorum.brokers)))
                played.victim = named.replace(TOKEN, changes.token_id)
                _play_once(played, outcome)
        sight = played.eye.sight
        outcome.gone = sight.gone_seconds
        outcome.behind = max(played.eye.behind(pulses.acked), default=0.0)
        outcome.verify = _verify(played)
    return outcome


def _play_once(played: Scene, outcome: Outcome) -> None:
    fault = outcome.fault
    story = fault.story(played)
    next(story)
    time.sleep(fault.stand_seconds / 2)  # immediate repairs are not a recurring cost
    before, began = played.cpu_seconds(), time.monotonic()
    time.sleep(fault.stand_seconds / 2)
    spent = [now - then for now, then in zip(played.cpu_seconds(), before, strict=True)]
    outcome.cpu_seconds += max(0.0, *spent)
    outcome.stood += time.monotonic() - began
    next(story, None)
    ended = time.monotonic()
    at, report = played.eye.equal(PATIENCE_SECONDS)
    if at - ended > outcome.converged:
        outcome.converged, outcome.slowest = at - ended, played.victim
    if not report.in_step:
        found = [f"{difference.kind} {difference.path}" for difference in report.differences]
        print(f"not in step again: {played.victim}", *found[:5], sep="\n    ", flush=True)


def _verify(played: Scene) -> str:
    target = ("-B", played.quorum.controllers, "-z", played.keepers.connect, "-c", played.config)
    done = trimaran("zk", "verify", *target, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()[-1]


def run_in_front_of(
    name: str, faults: list[Fault], folder: Path, keep: Path | None
) -> Iterator[Outcome]:
    """Runs all faults with one quorum."""
    with QUORUMS[name](folder) as quorum:
        changes = Changes(quorum)
        changes.prepare()
        for number, fault in enumerate(faults):
            place = folder / f"{number:02}-{fault.story.__name__}"
            try:
                outcome = play(fault, quorum, name, place, changes)
            except NotPossibleHere as missing:
                outcome = Outcome(fault, name, skipped=f"not played: {missing}")
            except Exception as problem:  # noqa: BLE001 - one fault's trouble is a row, the others go on
                traceback.print_exc()
                outcome = Outcome(fault, name, problem=str(problem) or repr(problem))
            if keep is not None and not outcome.ok:
                shutil.copytree(place, keep / name / place.name, dirs_exist_ok=True)
            yield outcome


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev chaos --mirror", description=__doc__)
    parser.add_argument("--quorum", choices=sorted(QUORUMS), action="append")
    parser.add_argument(
        "--only", action="append", help="faults with this text in their names; any of several"
    )
    parser.add_argument("--list", action="store_true", help="tell the faults, and end")
    parser.add_argument("--keep", type=Path, help="keep the directories of failed faults here")
    arguments = parser.parse_args()
    faults = [
        fault for fault in FAULTS if any(text in fault.name for text in arguments.only or [""])
    ]
    if arguments.list:
        print("\n".join(f"{fault.name}: {fault.what}" for fault in faults))
        return
    server_process.READY_SECONDS = START_SECONDS
    outcomes: list[Outcome] = []
    for name in arguments.quorum or sorted(QUORUMS, reverse=True):
        with tempfile.TemporaryDirectory(prefix="chaos-mirror-") as folder:
            for outcome in run_in_front_of(name, faults, Path(folder), arguments.keep):
                outcomes.append(outcome)
                print(" | ".join((name, *outcome.row(), outcome.verdict)), flush=True)
    failed = [outcome for outcome in outcomes if not outcome.ok]
    print(f"\n{table(outcomes)}\n\n{len(outcomes)} faults played, {len(failed)} missed a mark")
    sys.exit(1 if failed or not outcomes else 0)


if __name__ == "__main__":
    main()
