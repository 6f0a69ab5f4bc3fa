"""The marker that says that everything was flushed: without it the next start recovers.

Source: Kafka's `CleanShutdownFileHandler` (KIP-966: the controller trusts a broker's epoch that the broker remembers).

```
.kafka_cleanshutdown        {"version":0,"brokerEpoch":42}    Kafka 3.7 and later
                            empty                             before
```
"""

from __future__ import annotations

import json
from pathlib import Path

from log.disk.atomic_file import write_atomically
from log.disk.files import Files

FILE_NAME = ".kafka_cleanshutdown"
EPOCH_UNKNOWN = -1


def write_marker(directory: Path, broker_epoch: int, files: Files) -> None:
    """Blocks; raises OSError."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(directory / FILE_NAME, text.encode(), files)


def take_marker(directory: Path, files: Files) -> int | None:
    """The broker epoch of a clean shutdown, -1 if the marker does not say it; None when there is no marker.

    The marker is gone, durably, before this returns: a crash while loading is a crash (KAFKA-10471). Raises OSError.
    """
    path = directory / FILE_NAME
    try:
        text = files.read_bytes(path)
    except FileNotFoundError:
        return None
    files.unlink(path)
    files.fsync_directory(directory)
    try:
        epoch = json.loads(text)["brokerEpoch"]
    except (ValueError, TypeError, KeyError):
        return EPOCH_UNKNOWN
    return epoch if isinstance(epoch, int) else EPOCH_UNKNOWN
