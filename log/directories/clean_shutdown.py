"""The marker of a clean shutdown, after which all logs are flushed: without the marker the next start recovers the
logs.

Source: Kafka's `CleanShutdownFileHandler` (KIP-966: the controller trusts the epoch that the broker reports).

```
.kafka_cleanshutdown        {"version":0,"brokerEpoch":42}    Kafka 3.7 and later
                            empty                             before
```

A damaged marker is ignored: the logs are checked as after a crash, which costs only time.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.files import Files, is_of_name
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.wire.identity import NO_BROKER_EPOCH, BrokerEpoch
from trimaran.wire.text import events

log = logging.getLogger(__name__)

FILE_NAME = ".kafka_cleanshutdown"


def write_marker(directory: Path, broker_epoch: BrokerEpoch, files: Files) -> None:
    """Writes the marker durably. Blocks; raises OSError."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(directory / FILE_NAME, text.encode(), files)


def take_marker(directory: Path, files: Files) -> BrokerEpoch | None:
    """Removes the marker and returns the broker epoch of the clean shutdown: -1 if the marker lacks it, None if the
    marker is missing or damaged.

    The marker is durably removed before this returns, so that a crash while loading counts as a crash (KAFKA-10471). A
    marker that cannot be removed counts as missing, because it would still exist after the next crash. Raises OSError:
    the disk failed.
    """
    path = directory / FILE_NAME
    try:
        text = read_small_file(path, files)
        if text is None:
            return None
        epoch = _broker_epoch(path, text)
    except FileDamaged as damage:
        events.LOG_DIRECTORY_FILE_DAMAGED.log(log, error=damage)
        epoch = None
    try:
        files.unlink(path)
        files.fsync_directory(directory)
    except OSError as error:
        if not is_of_name(error):
            raise
        if epoch is not None:
            events.LOG_DIRECTORY_FILE_DAMAGED.log(log, error=f"{path} cannot be removed: {error}")
        return None
    return epoch


def _broker_epoch(path: Path, text: bytes) -> BrokerEpoch:
    """Returns the broker epoch in the marker. Raises FileDamaged."""
    if not text:
        return NO_BROKER_EPOCH
    try:
        content = json.loads(text)
        version, epoch = content["version"], content["brokerEpoch"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FileDamaged(f"{path} is damaged: {error!r}") from error
    if version != 0 or type(epoch) is not int or epoch < NO_BROKER_EPOCH:
        raise FileDamaged(f"{path} is damaged: version {version!r}, broker epoch {epoch!r}")
    return BrokerEpoch(epoch)
