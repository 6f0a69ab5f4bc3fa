"""`./dev chaos --spark-sink [RUNS]`: a query writes exactly once, while its processes and brokers are killed.

Each run is a separate process with 25 kills, and prints a line for each. With `--ledger FILE` an interrupted series
resumes: seeds in the file are not repeated.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from confluent_kafka import KafkaException

from tests.chaos.spark_sink.run import KILLS, SYSTEMS, play
from tests.chaos.transactions.series import FAILED, OK, Series, parser_of
from tests.librdkafka import LOGGER

# A run takes some minutes on a machine with two free cores.
RUN_SECONDS_MAX = 1800.0


def main() -> None:
    parser = parser_of("--spark-sink", __doc__, 1, SYSTEMS)
    parser.add_argument("--kills", type=int, default=KILLS, help="of one run, with --data")
    options = parser.parse_args()
    # No process outlives a run that receives SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # Brokers are killed again and again, and librdkafka reports each of these disconnections.
    LOGGER.addHandler(logging.NullHandler())
    if options.data is not None:
        _one(options.system, options.seed, options.data, options.kills)
    series = Series(options.system, options.ledger, "tests.chaos.spark_sink", RUN_SECONDS_MAX)
    series.play_and_exit(options)


def _one(system: str, seed: int, data: Path, kills: int) -> None:
    """Plays one run and ends the process with the outcome as its exit code."""
    try:
        outcome = play(system, seed, data, kills)
        text, code = outcome.text, OK if outcome.is_ok else FAILED
    except (AssertionError, KafkaException) as error:
        text, code = f"{type(error).__name__}: {error}", FAILED
    print(text, flush=True)
    os._exit(code)


if __name__ == "__main__":
    main()
