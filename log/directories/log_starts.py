"""The start of a log when its checkpoint is damaged: without it deleted records would be served again.

The first entry of the leader epochs moves up with the log's start (`LeaderEpochs.truncate_from_start`), as in Kafka.
Kafka itself starts such a log at the first segment's base. The epochs are written by the log's next flush, or at its
close; what was deleted after that is there again.
"""

from __future__ import annotations

from pathlib import Path

from trimaran.log.disk.files import Files
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.disk.small_file import FileDamaged
from trimaran.log.segments.recovery import offsets_of
from trimaran.log.segments.scan import scan_headers
from trimaran.log.segments.segment import LOG_SUFFIX, file_name


def noted_start(directory: Path, files: Files) -> int:
    """The start of the log in `directory` by its leader epochs; 0 where they do not say. Blocks. Raises OSError."""
    try:
        epochs = LeaderEpochs.read(directory, files)
    except FileDamaged:
        return 0
    if epochs is None or not epochs.entries() or _begins_without_epoch(directory, files):
        return 0
    return epochs.entries()[0][1]


def _begins_without_epoch(directory: Path, files: Files) -> bool:
    """Before the first entry there may be records of an old format, which have no epoch."""
    for base in offsets_of(directory, LOG_SUFFIX, files):
        file = files.open(directory / file_name(base, LOG_SUFFIX), write=False)
        for _, view in scan_headers(files, file, 0, files.size(file)):
            return view.leader_epoch < 0
    return False
