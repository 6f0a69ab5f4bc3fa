"""Names of partition directories.

Source: Kafka's `LocalLog.parseTopicPartitionName`, `logDeleteDirName` and its siblings, `Topic` (legal names).

```
orders-3                           a partition:            TOPIC-PARTITION
orders-3.0f…9a-delete              to be removed:          TOPIC-PARTITION.UNIQUE-delete, the topic cut to fit a file
name
orders-3.0f…9a-stray of an unknown topic; the topic is cut likewise
orders-3.0f…9a-future              on its way here from another directory; the topic is never cut
```
"""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from sys import intern

from trimaran.wire.identity import TopicPartition

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
FILE_NAME_BYTES_MAX = 255
UNIQUE_CHARS = 32

PARTITION_DIGITS_MAX = 10

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
_UNIQUE = re.compile(r"\.[0-9a-f]{32}\Z")


def is_partition_directory(name: str) -> bool:
    """Whether `name` is a legal topic, a dash and a partition number."""
    return partition_of(name) is not None


def partition_of(name: str) -> TopicPartition | None:
    """Returns the partition of a directory such as `orders-3`; None for other names. At startup this is called
    thousands of times, in order.
    """
    topic, _, number = name.rpartition("-")
    if not number.isdecimal() or not number.isascii() or len(number) > PARTITION_DIGITS_MAX:
        return None
    known = _legal_topic(topic)
    return None if known is None else TopicPartition(known, int(number))


@lru_cache(maxsize=1)  # the partitions of a topic follow one another
def _legal_topic(topic: str) -> str | None:
    legal = _TOPIC.match(topic) is not None and topic not in (".", "..")
    return intern(topic) if legal else None


def parse_directory_name(name: str) -> TopicPartition:
    """Returns the partition of a directory such as `orders-3`, or of a future one; raises ValueError for other
    names.
    """
    found = partition_of(_renamed_from(name, FUTURE_SUFFIX))
    if found is None:
        raise ValueError(f"{name!r} is not TOPIC-PARTITION")
    return found


def is_deleted_directory(name: str) -> bool:
    """Whether `name` has the form of a partition directory that is to be removed; the name alone does not prove it."""
    return partition_of(_renamed_from(name, DELETE_SUFFIX)) is not None


def put_aside_from(name: str) -> TopicPartition | None:
    """Returns the partition of a `-delete` or `-stray` directory, with the topic truncated as in the name; None for
    other names.
    """
    for suffix in (DELETE_SUFFIX, STRAY_SUFFIX):
        if name.endswith(suffix):
            return partition_of(_renamed_from(name, suffix))
    return None


def _renamed_from(name: str, suffix: str) -> str:
    """Returns `orders-3` for `orders-3.0f…9a-delete`; returns other names unchanged."""
    if not name.endswith(suffix):
        return name
    unique = _UNIQUE.search(name.removesuffix(suffix))
    return name if unique is None else name[: unique.start()]


def aside_name(key: TopicPartition, suffix: str) -> str:
    """Returns a new name for a directory that no longer belongs to a partition (`-delete`, `-stray`)."""
    return f"{aside_topic(key, suffix)}-{key.partition}.{uuid.uuid4().hex}{suffix}"


def aside_topic(key: TopicPartition, suffix: str) -> str:
    """Returns the part of the topic's name that fits into an `aside_name`."""
    return key.topic[: FILE_NAME_BYTES_MAX - len(f"-{key.partition}.{suffix}") - UNIQUE_CHARS]


def future_name(key: TopicPartition) -> str:
    """Returns a new name for a replica that is copied here. Raises ValueError: the name of the topic is too long for
    this.
    """
    name = f"{key}.{uuid.uuid4().hex}{FUTURE_SUFFIX}"
    if len(name) > FILE_NAME_BYTES_MAX:
        raise ValueError(f"{name} is longer than a file name can be")
    return name
