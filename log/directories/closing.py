"""A clean shutdown: every log must be complete and durable, because the next process assumes it.

Source: `LogManager.shutdown` of Kafka, which has loaded all logs, so that no log remains unchecked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from time import monotonic

from trimaran.log.disk.files import Files
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.identity import TopicPartition
from trimaran.wire.text import events

log = logging.getLogger(__name__)

# Closing a written log takes five fsyncs. With more logs than this, the whole volume is synced once instead.
SYNCS_MAX = 100
# The time in seconds for checks of logs that were not opened since a crash: each takes a millisecond or two, and a
# container is killed ten seconds after its stop.
CHECK_SECONDS_MAX = 8.0


def check_all(
    unchecked: Sequence[TopicPartition], check: Callable[[TopicPartition], object], directory: Path
) -> bool:
    """Checks the logs that a crash left in `directory`; returns False if that would take too long. Blocks."""
    give_up_at = monotonic() + CHECK_SECONDS_MAX
    for number, key in enumerate(unchecked):
        if monotonic() > give_up_at:
            events.LOG_DIRECTORY_NOT_CLEAN.log(
                log, directory=directory, logs=len(unchecked) - number
            )
            return False
        check(key)
    return True


def close_logs(
    logs: Collection[PartitionLog],
    directory: Path,
    files: Files,
    health: DirectoryHealth,
    *,
    clean: bool,
) -> None:
    """Closes the logs of `directory`; if `clean`, makes all records written to them durable. Blocks. Raises
    KafkaError.
    """
    unsynced = [each_log for each_log in logs if clean and each_log.must_close]
    if len(unsynced) < SYNCS_MAX:
        unsynced = []
    for each_log in unsynced:
        each_log.close_unsynced()
    if unsynced:
        with health.guard(f"sync of {directory}"):
            files.sync_volume(directory)
    for each_log in unsynced:
        each_log.note_synced()
    for each_log in logs:
        each_log.close(clean=clean)
