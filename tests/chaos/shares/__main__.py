"""`./dev chaos --shares [RUNS]`: a share group under faults. Each delivery and each decision is judged.

Each run is a separate process. With `--ledger FILE` an interrupted series resumes: seeds in the file are not repeated.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from confluent_kafka import KafkaException

from tests.chaos.shares.run import play
from tests.chaos.transactions.copying import ClientHangs
from tests.chaos.transactions.series import FAILED, HUNG, OK, Series


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev chaos --shares", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--system", choices=["ours"], default="ours")
    parser.add_argument("--ledger", type=Path, help="a line of JSON for each run; a series goes on")
    parser.add_argument("--data", type=Path, help="plays one run, with its cluster here")
    options = parser.parse_args()
    # No node outlives a run that receives SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if options.data is not None:
        _one(options.seed, options.data)
    series = Series(options.system, options.ledger, "tests.chaos.shares")
    series.play(range(options.seed, options.seed + options.runs), options.jobs)
    print(series.summary())
    sys.exit(not series.all_ok)


def _one(seed: int, data: Path) -> None:
    """Plays one run and ends the process with the outcome as its exit code; otherwise hanging client threads would keep
    it alive.
    """
    try:
        is_ok, text = play(seed, data)
        code = OK if is_ok else FAILED
    except ClientHangs as hang:
        text, code = str(hang), HUNG
    except (AssertionError, KafkaException) as error:
        text, code = f"{type(error).__name__}: {error}", FAILED
    print(text, flush=True)
    os._exit(code)


if __name__ == "__main__":
    main()
