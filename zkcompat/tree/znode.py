"""Znodes as values: as they should be, and as they were read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as it should be; `data` None is no data. A `secret` can be read by its creator only."""

    data: bytes | None
    ephemeral: bool = False
    secret: bool = False


class FoundZnode(NamedTuple):
    """A znode as it was read; `owner` is the session of an ephemeral one, else 0. `children` counts them.

    The zxids are those of the transactions that created it, wrote it last, and last created or deleted a child of it.
    `refusal` names ZooKeeper's error if the znode exists but may not be read.
    """

    data: bytes | None
    owner: int = 0
    version: int = 0
    created_ms: int = 0
    created_zxid: int = 0
    modified_zxid: int = 0
    refusal: str = ""
    children: int = 0
    modified_ms: int = 0
    children_zxid: int = 0


# Our own paths are shorter; a name that another client wrote may fill a packet of a MiB.
PATH_CHARS_PRINTED = 1000


def printable_path(path: str) -> str:
    """Returns the path, shortened for a log or a report."""
    if len(path) <= PATH_CHARS_PRINTED:
        return path
    return f"{path[:PATH_CHARS_PRINTED]}… ({len(path)} characters)"


Tree = Mapping[str, Znode]
FoundTree = Mapping[str, FoundZnode]
