"""The rules for names of topics. Source: Kafka's `Topic.validate`, KIP-6."""

from __future__ import annotations

import re

# With "-", a partition number and ".deleted" suffixes it must fit a file name.
NAME_SIZE_MAX = 249
# How much of an illegal name is quoted: with four bytes a character it takes no more than the longest legal name.
QUOTED_CHARS = NAME_SIZE_MAX // 4
METADATA_TOPIC = "__cluster_metadata"
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def quoted(name: str) -> str:
    """As errors of partitions quote it: one too long for any topic is cut, for each partition quotes it again."""
    return name if len(name.encode()) <= NAME_SIZE_MAX else f"{name[:QUOTED_CHARS]}…"


def why_illegal(name: str) -> str | None:
    """Why a topic cannot have this name; None if it can."""
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
    """Returns the name in metrics, where '.' and '_' are one character: names that collide have the same."""
    return name.replace(".", "_")
