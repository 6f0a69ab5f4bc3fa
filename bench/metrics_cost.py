"""What metrics cost: CPU seconds of a broker that produces and consumes, without a listener and with one that is
scraped as Prometheus does, in turn.

`python -m bench.metrics_cost [ROUNDS]`, for a machine at rest: the clock of a process wanders with what else runs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

RECORDS, RATE = 1_000_000, 100_000
SCRAPE_SECONDS = 15.0
_OF_A_PROCESS = 2  # of the kernel's numbers of CPU clocks: user and system time of all threads


def main(rounds: int) -> None:
    """Prints a line a run, and the medians' ratio."""
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(rounds):
        for metrics in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                found[metrics].append(_run(Path(directory) / "data", metrics=metrics))
            print("with   " if metrics else "without", *(f"{s:7.3f} s" for s in found[metrics][-1]))
    for index, name in enumerate(("produce", "consume")):
        without, beside = (statistics.median(one[index] for one in found[m]) for m in (False, True))
        print(f"{name}: {(beside / without - 1) * 100:+.2f} % with metrics")


def _trimaran(*words: str | Path) -> str:
    command = [sys.executable, "-m", "trimaran", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _run(data: Path, *, metrics: bool) -> tuple[float, float]:
    """CPU seconds of the broker: of producing, and of consuming three times."""
    options = ["--metrics"] if metrics else []
    size = ("--controllers", "1", "--brokers", "1", "--data", data, "-o", "json")
    state = json.loads(_trimaran("up", "-d", *size, *options))
    over = threading.Event()
    try:
        broker = next(node for node in state["nodes"] if node["role"] == "broker")
        server = ("-q", "-b", state["bootstrap"])
        _trimaran("topics", "create", "t", "-p", "4", "-r", "1", *server)
        _trimaran("bench", "produce", "t", "-n", "100000", *server)
        if metrics:
            threading.Thread(target=_scrape, args=(broker, over), daemon=True).start()
        begun = _cpu_seconds(broker["pid"])
        _trimaran("bench", "produce", "t", "-n", str(RECORDS), "--rate", str(RATE), *server)
        produced = _cpu_seconds(broker["pid"])
        for _ in range(3):
            _trimaran("bench", "consume", "t", *server)
        return produced - begun, _cpu_seconds(broker["pid"]) - produced
    finally:
        over.set()
        _trimaran("down", "-q", "--data", data)


def _cpu_seconds(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | _OF_A_PROCESS)


def _scrape(broker: dict[str, Any], over: threading.Event) -> None:
    while True:
        with urllib.request.urlopen(f"http://{broker['metrics']}/metrics") as answer:
            answer.read()
        if over.wait(SCRAPE_SECONDS):
            return


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
