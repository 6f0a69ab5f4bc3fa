"""The rules for names of topics. Source: Kafka's `Topic.validate`, KIP-6."""

from __future__ import annotations

import re

# With "-", a partition number and a ".deleted" suffix it must fit a file name.
NAME_SIZE_MAX = 249
# The length to which an illegal name is cut in messages: at four bytes a character no longer than the longest legal
# name.
QUOTED_CHARS = NAME_SIZE_MAX // 4
METADATA_TOPIC = "__cluster_metadata"
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def quoted(name: str) -> str:
    """Returns the name for partitions' error messages; cuts a name too long for any topic, because each partition
    repeats it.
    """
    return name if len(name.encode()) <= NAME_SIZE_MAX else f"{name[:QUOTED_CHARS]}…"


def why_illegal(name: str) -> str | None:
    """Returns the reason why a topic cannot have this name, or None if it can."""
    why = None
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > NAME_SIZE_MAX:
        why = f"the length of '{name}' is longer than the max allowed length {NAME_SIZE_MAX}"
    elif not _LEGAL.match(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None if why is None else f"Topic name is invalid: {why}"


def has_collision_characters(name: str) -> bool:
    return "." in name or "_" in name


def in_metrics(name: str) -> str:
    """Returns the name in metrics, where '.' and '_' are the same character: names that collide are equal."""
    return name.replace(".", "_")
