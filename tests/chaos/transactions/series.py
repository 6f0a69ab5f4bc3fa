"""Many runs, several at a time, each in a separate process, and a ledger of the outcomes."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from tests.chaos.transactions.clusters import clear_away

# A run takes a minute and a half; all its timeouts together are shorter than this.
RUN_SECONDS_MAX = 500.0
# Exit codes of a process that played one run.
OK, FAILED, HUNG = 0, 1, 3
WORDS = {OK: "ok", HUNG: "client hung"}


@dataclass(frozen=True)
class Played:
    """A line of the ledger."""

    system: str
    seed: int
    result: str
    seconds: float
    text: str

    def __str__(self) -> str:
        result = self.result if self.result == WORDS[OK] else self.result.upper()
        return f"{self.system} seed {self.seed}: {result}  {self.text}  ({self.seconds:.0f} s)"


def command_of(module: str, system: str, seed: int, data: Path) -> list[str]:
    """Returns the command that plays one run."""
    program = [sys.executable, "-m", module]
    return [*program, "--system", system, "--seed", str(seed), "--data", str(data)]


def parser_of(
    verb: str, description: str | None, runs: int, systems: Iterable[str]
) -> argparse.ArgumentParser:
    """Returns the parser of a verb that plays a series of `runs`, or with `--data` one run of it."""
    parser = argparse.ArgumentParser(prog=f"./dev chaos {verb}", description=description)
    parser.add_argument("runs", type=int, nargs="?", default=runs)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--system", choices=sorted(systems), default="ours")
    parser.add_argument("--ledger", type=Path, help="a line of JSON for each run; a series goes on")
    parser.add_argument("--data", type=Path, help="plays one run, with its cluster here")
    return parser


class Series:
    """The runs of a module's program on one system; `played` has the results by seed, including those of earlier runs
    in the ledger.
    """

    def __init__(
        self,
        system: str,
        ledger: Path | None,
        module: str = "tests.chaos.transactions",
        seconds_max: float = RUN_SECONDS_MAX,
    ) -> None:
        self._system, self._ledger, self._module = system, ledger, module
        self._seconds_max = seconds_max
        self.played: dict[int, Played] = {}
        if ledger is not None and ledger.exists():
            lines = (Played(**json.loads(line)) for line in ledger.read_text().splitlines())
            self.played = {line.seed: line for line in lines if line.system == system}

    def play(self, seeds: Iterable[int], jobs: int) -> None:
        """Plays the seeds that the ledger lacks, `jobs` at a time."""
        pool = ThreadPoolExecutor(jobs)
        try:
            for played in pool.map(self._play, [s for s in seeds if s not in self.played]):
                self.played[played.seed] = played
        finally:  # after an interrupt, the current runs finish and no others begin
            pool.shutdown(cancel_futures=True)

    def _play(self, seed: int) -> Played:
        began = time.monotonic()
        kind = self._module.rpartition(".")[2]
        data = Path(tempfile.mkdtemp(prefix=f"{kind}-{self._system}-{seed}-"))
        command = command_of(self._module, self._system, seed, data)
        code, text = _run(command, data, self._seconds_max)
        result = WORDS.get(code, "failed")
        if code == OK:
            shutil.rmtree(data, ignore_errors=True)
        else:
            text += f"; its data: {data}"
        played = Played(self._system, seed, result, time.monotonic() - began, text)
        print(played, flush=True)
        if self._ledger is not None:
            with self._ledger.open("a") as file:
                file.write(json.dumps(asdict(played)) + "\n")
        return played

    def play_and_exit(self, options: argparse.Namespace) -> NoReturn:
        """Plays the runs that the options of a verb ask for, prints the summary, and exits with 1 if a run failed."""
        self.play(range(options.seed, options.seed + options.runs), options.jobs)
        print(self.summary())
        sys.exit(not self.all_ok)

    @property
    def all_ok(self) -> bool:
        return all(played.result == WORDS[OK] for played in self.played.values())

    def summary(self) -> str:
        counts = Counter(played.result for played in self.played.values())
        told = ", ".join(f"{count} {result}" for result, count in counts.most_common())
        middle = statistics.median([p.seconds for p in self.played.values()] or [0.0])
        return f"{self._system}: {len(self.played)} runs: {told or 'none'}; {middle:.0f} s each"


def _run(command: list[str], data: Path, seconds_max: float) -> tuple[int, str]:
    """Returns the exit code and the last line of output; a process that does not end is killed and counts as a hung
    client. librdkafka 2.16 may deadlock after an error in OffsetForLeaderEpoch
    (`rd_kafka_toppar_handle_OffsetForLeaderEpoch` waits for a lock while holding another), which blocks all of Python.
    """
    said = data / "said"
    with said.open("w") as file:
        process = subprocess.Popen(command, stdout=file, start_new_session=True)
    try:
        code = process.wait(seconds_max)
    except subprocess.TimeoutExpired:
        # A deadlocked process does not handle SIGTERM.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        clear_away(data)
        return HUNG, f"not at its end after {seconds_max:.0f} s"
    return code, (said.read_text().strip().splitlines() or ["it said nothing"])[-1]
