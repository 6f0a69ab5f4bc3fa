"""The cost of metrics for a broker that serves them (`bench.switched`). Between two scrapes they only count the turns
of the loop; all other numbers are counted in any case.

`python -m bench.metrics_cost [PAIRS]`. Scrapes are measured separately: their time is a share of the interval,
independent of the load.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import trio

from bench.sizes import sized
from bench.switched import PAIRS, compared, fetch_request, one_node, produce_request
from trimaran.metrics.loop_times import LoopTimes
from trimaran.wire.transport.scheduling.loop_turns import loop_turns

SCRAPES, SCRAPE_SECONDS = sized(50, 5), 15.0
_OF_A_PROCESS = 2  # fields of the kernel: user and system time of all threads


async def measure(root: Path, pairs: int) -> None:
    """Prints the difference of producing and of consuming."""
    loop_times, counting = LoopTimes(loop_turns()), ExitStack()

    def switch(is_on: bool) -> None:
        counting.close()
        if is_on:
            counting.enter_context(loop_times.counting())

    async with one_node(root) as running:
        for name, request in (("produce", produce_request()), ("consume", fetch_request())):
            found = await compared(running, request, switch, pairs)
            print(f"{name}: metrics {found.summary()}", flush=True)


def measure_scrapes(data: Path) -> None:
    """Measures scrapes of a broker with a controller in a separate process."""
    size = ("--controllers", "1", "--brokers", "1", "--data", data, "-o", "json")
    state = json.loads(_trimaran("up", "-d", *size, "--metrics"))
    try:
        broker = next(node for node in state["nodes"] if node["role"] == "broker")
        begun = _cpu_seconds(broker["pid"])
        for _ in range(SCRAPES):
            with urllib.request.urlopen(f"http://{broker['metrics']}/metrics") as text:
                text.read()
        took = (_cpu_seconds(broker["pid"]) - begun) / SCRAPES
    finally:
        _trimaran("down", "-q", "--data", data)
    share = took / SCRAPE_SECONDS * 100
    print(f"a scrape: {took * 1000:.2f} ms, {share:.3f} % of a core each {SCRAPE_SECONDS:.0f} s")


def _cpu_seconds(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | _OF_A_PROCESS)


def _trimaran(*words: str | Path) -> str:
    command = [sys.executable, "-m", "trimaran", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(pairs: int) -> None:
    """Prints all figures."""
    with tempfile.TemporaryDirectory() as directory:
        trio.run(partial(measure, Path(directory) / "node", pairs))
        measure_scrapes(Path(directory) / "scraped")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
