"""`./dev chaos --transactions [RUNS]`: consume-transform-produce under faults, judged by read_committed readers.

Each run is a separate process. With `--ledger FILE` an interrupted series resumes: seeds in the file are not repeated.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from confluent_kafka import KafkaException

from tests.chaos.transactions.clusters import SYSTEMS
from tests.chaos.transactions.copying import ClientHangs
from tests.chaos.transactions.run import play
from tests.chaos.transactions.series import FAILED, HUNG, OK, Series, parser_of


def main() -> None:
    options = parser_of("--transactions", __doc__, 5, SYSTEMS).parse_args()
    # No node outlives a run that receives SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if options.data is not None:
        _one(options.system, options.seed, options.data)
    Series(options.system, options.ledger).play_and_exit(options)


def _one(system: str, seed: int, data: Path) -> None:
    """Plays one run and ends the process with the outcome as its exit code; otherwise hanging client threads would keep
    it alive.
    """
    try:
        outcome = play(system, seed, data)
        text, code = outcome.text, OK if outcome.is_ok else FAILED
    except ClientHangs as hang:
        text, code = str(hang), HUNG
    except (AssertionError, KafkaException) as error:
        text, code = f"{type(error).__name__}: {error}", FAILED
    print(text, flush=True)
    os._exit(code)


if __name__ == "__main__":
    main()
