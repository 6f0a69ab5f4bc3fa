"""All changes that the console can make."""

from __future__ import annotations

from trimaran.console import group_writes, topic_writes
from trimaran.console.writes import ConsoleWrite

WRITES: tuple[ConsoleWrite, ...] = (*topic_writes.WRITES, *group_writes.WRITES)
