"""Faults of one disk: a call of the file layer that fails, or during which the process ends, and damaged files."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.simulation.partitions.disk import Directory, Node, SimDisk

# The calls, each with path fragments to which a fault may be limited, so that rare calls fail often enough.
CALLS: dict[str, tuple[str, ...]] = {
    "open": ("", ".log", "partition.metadata"),
    "create": ("", "-future", ".log", ".tmp"),
    "pwrite": ("", ".log", "-future", ".tmp"),
    "pread": ("", "-future"),
    "fdatasync": ("", "-future", ".tmp"),
    "fsync_directory": ("", "-future"),
    "rename": ("", "-future", "-delete", "checkpoint"),
    "unlink": ("", "-delete"),
    "mkdir": ("", "-future"),
    "rmdir": ("",),
    "list": ("", "-future", "-delete"),
    "truncate": ("", "-future", ".log", ".tmp"),
    "preallocate": ("",),
    "read_bytes": ("", "partition.metadata", "-future"),
}
_ROOM = frozenset(
    {"create", "pwrite", "fdatasync", "fsync_directory", "rename", "mkdir", "truncate"}
) | {"preallocate"}
_RIGHTS = frozenset({"open", "create", "rename", "unlink", "mkdir", "rmdir", "list", "read_bytes"})
_CALLS_OF = {errno.ENOSPC: _ROOM, errno.EACCES: _RIGHTS}

SMALL_FILES = ("partition.metadata", ".kafka_cleanshutdown", "meta.properties")
SMALL_SUFFIXES = ("-checkpoint", ".snapshot")


class DiskFault(NamedTuple):
    """The next `call` with `place` in a path fails with `error`, or ends the process; with `lasts`, all later calls
    that can fail with this error fail, too.
    """

    call: str
    place: str
    error: int
    lasts: bool
    dies: bool

    @classmethod
    def draw(cls, prng: random.Random, dies: float) -> DiskFault:
        call = prng.choice(list(CALLS))
        errors = [errno.EIO, *(error for error in _CALLS_OF if call in _CALLS_OF[error])]
        return cls(
            call,
            prng.choice(CALLS[call]),
            prng.choice(errors),
            lasts=prng.random() < 0.5,
            dies=prng.random() < dies,
        )

    def meets(self, call: str, paths: Sequence[Path]) -> bool:
        return call == self.call and any(self.place in str(path) for path in paths)

    def __str__(self) -> str:
        what = "ends the process" if self.dies else errno.errorcode[self.error]
        return f"{self.call} {self.place or 'anywhere'}: {what}{' for good' * self.lasts}"


def fails_with(error: int, call: str) -> bool:
    """Whether `call` fails on a disk that is full, not accessible or broken."""
    return call in _CALLS_OF.get(error, CALLS)


def os_error(error: int, path: Path) -> OSError:
    return OSError(error, os.strerror(error), str(path))


# --- damage


class Damage(NamedTuple):
    """A file's content before and after the damage."""

    path: Path
    before: bytes
    after: bytes


def small_files(disk: SimDisk, path: Path) -> list[Path]:
    """Returns the files below `path` that contain no records."""
    found = []
    directory = disk._directory(path)
    for name, node in sorted(directory.names.items()):
        if isinstance(node, Directory):
            found += small_files(disk, path / name)
        elif name in SMALL_FILES or name.endswith(SMALL_SUFFIXES):
            found.append(path / name)
    return found


def damage(disk: SimDisk, path: Path, prng: random.Random) -> Damage:
    """Flips a bit of the file, truncates it, or overwrites its end or all of it with zeros."""
    node = disk._file(path)
    before = bytes(node.content)
    content = bytearray(before)
    kind = prng.choice(("cut", "flip", "flip", "zeros"))
    if kind == "flip" and content:
        content[prng.randrange(len(content))] ^= 1 << prng.randrange(8)
    elif kind == "zeros" and content:
        start = prng.choice((0, prng.randrange(len(content))))
        content[start:] = bytes(len(content) - start)
    else:
        del content[prng.randint(0, max(0, len(content) - 1)) :]
    _put(node, bytes(content))
    return Damage(path, before, bytes(content))


def repair(disk: SimDisk, damaged: Damage) -> bool:
    """Restores the previous content, unless it was written since; returns whether it did."""
    try:
        node = disk._file(damaged.path)
    except OSError:
        return False
    if bytes(node.content) != damaged.after:
        return False
    _put(node, damaged.before)
    return True


def _put(node: Node, content: bytes) -> None:
    node.content = bytearray(content)
    node.durable = content
