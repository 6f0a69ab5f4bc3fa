"""Names of partition directories: `TOPIC-PARTITION`.

Source: Kafka's `UnifiedLog.parseTopicPartitionName`, `Topic` (which names are legal).
"""

from __future__ import annotations

import re

_PARTITION_DIRECTORY = re.compile(r"[a-zA-Z0-9._-]{1,249}-[0-9]{1,10}\Z")


def is_partition_directory(name: str) -> bool:
    """Whether `name` is a legal topic, a dash and a partition number."""
    return _PARTITION_DIRECTORY.match(name) is not None and not name.startswith((".-", "..-"))


def parse_directory_name(name: str) -> tuple[str, int]:
    """(topic, partition) of a directory such as `orders-3`; raises ValueError for other names."""
    if not is_partition_directory(name):
        raise ValueError(f"{name!r} is not TOPIC-PARTITION")
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)
