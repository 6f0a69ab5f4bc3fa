"""The text form of a share partition's key, by which its coordinator is found: `group:topic id:partition`.

Source: Kafka's `SharePartitionKey`.
"""

from __future__ import annotations

import re

from trimaran.wire.buffers.primitives import uuid_from_text, uuid_to_text
from trimaran.wire.identity import SharePartitionKey

_PARTITION = re.compile(r"[+-]?\d+")
_WHITESPACE = "".join(map(chr, range(33)))  # the characters that Java's `trim` removes


def key_text(key: SharePartitionKey) -> str:
    """Returns the text of a key."""
    return f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"


def key_from_text(text: str) -> SharePartitionKey:
    """Returns the key of a text. A group's id may have colons; as in Kafka, colons at the end do not count.

    Raises:
        ValueError: the text is not that of a key.
    """
    parts = text.rstrip(":").rsplit(":", 2)
    if len(parts) < 3 or not parts[0].strip(_WHITESPACE):
        raise ValueError(f"{text!r} is not group:topic id:partition")
    group_id, topic_id, partition = parts
    if not _PARTITION.fullmatch(partition) or not -(1 << 31) <= int(partition) < 1 << 31:
        raise ValueError(f"{partition!r} is not a partition")
    return SharePartitionKey(group_id, uuid_from_text(topic_id.removesuffix("==")), int(partition))
