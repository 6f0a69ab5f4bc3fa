"""Possible states of a disk after a power loss: a recording of file operations is replayed up to any of them.

The model: the bytes of a file are durable up to its last fdatasync, the names in a directory up to its last fsync.
Later changes may survive or not, depending on the `Style`. Names change one after another, as in the journals of ext4,
xfs and btrfs: of the changes that are not durable, a prefix survives. Renaming is atomic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512  # disks write a sector completely or not at all


class Write(NamedTuple):
    file: int
    position: int
    data: bytes


class Resize(NamedTuple):
    """A truncation or preallocation."""

    file: int
    size: int


class Sync(NamedTuple):
    file: int


class Create(NamedTuple):
    directory: int
    name: str
    node: int
    is_directory: bool


class Rename(NamedTuple):
    directory: int
    name: str
    target_directory: int
    target_name: str


class Remove(NamedTuple):
    directory: int
    name: str


class SyncDirectory(NamedTuple):
    directory: int


class SyncVolume(NamedTuple):
    pass


Operation = Write | Resize | Sync | Create | Rename | Remove | SyncDirectory | SyncVolume


# The bytes of each file by path, and None for each directory; a directory precedes its content.
Tree = dict[str, bytes | None]


class Style(Enum):
    """The part of the unsynced work that survives."""

    KEPT = "everything: the process was killed, the machine lives"
    LOST = "nothing"
    NAMES = "all names, no bytes"
    BYTES = "all bytes of the files that have durable names"
    ZEROS = "all names and sizes, zeros for the bytes"
    TORN = "what was done first; of the last write a part"
    SECTORS = "any sectors, any size between, the first so many names"


class _File:
    __slots__ = ("durable", "pending")

    def __init__(self, content: bytes) -> None:
        self.durable = bytearray(content)
        self.pending: list[tuple[int, Write | Resize]] = []


@dataclass(slots=True)
class Recording:
    """The initial tree, and the operations. Nodes are numbers; a file's node keeps its number when it is renamed."""

    files: dict[int, bytes] = field(default_factory=dict)
    directories: dict[int, dict[str, int]] = field(default_factory=dict)
    roots: dict[Path, int] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)


class Disk:
    """The disk of a recording after the operations given to `apply`, one after another from the first."""

    def __init__(self, recording: Recording) -> None:
        self.operations = 0
        self._roots = recording.roots
        self._files = {node: _File(content) for node, content in recording.files.items()}
        self._names = {node: dict(names) for node, names in recording.directories.items()}
        self._pending: list[tuple[int, Create | Rename | Remove]] = []

    def apply(self, operation: Operation) -> None:
        self.operations += 1
        match operation:
            case Write() | Resize():
                self._files[operation.file].pending.append((self.operations, operation))
            case Sync():
                self._sync(self._files[operation.file])
            case SyncDirectory():
                self._sync_names(operation.directory)
            case SyncVolume():
                for file in self._files.values():
                    self._sync(file)
                self._sync_names(None)
            case Create():
                if operation.is_directory:
                    self._names[operation.node] = {}
                else:
                    self._files[operation.node] = _File(b"")
                self._pending.append((self.operations, operation))
            case _:
                self._pending.append((self.operations, operation))

    @staticmethod
    def _sync(file: _File) -> None:
        for _, change in file.pending:
            _apply(file.durable, change)
        file.pending.clear()

    def _sync_names(self, directory: int | None) -> None:
        left = []
        for at, change in self._pending:
            target = change.target_directory if isinstance(change, Rename) else change.directory
            if directory is None or directory in (change.directory, target):
                _rename(self._names, change)
            else:
                left.append((at, change))
        self._pending = left

    @property
    def unsynced_bytes(self) -> int:
        """Returns how many written bytes a crash could lose."""
        changes = [change for file in self._files.values() for _, change in file.pending]
        return sum(len(change.data) for change in changes if isinstance(change, Write))

    # Crashing

    def after(self, style: Style, prng: Random) -> Tree:
        """Returns a possible state after a crash."""
        pending = [at for at, _ in self._pending]
        pending += [at for file in self._files.values() for at, _ in file.pending]
        cut = prng.choice(pending or [0])
        names = {node: dict(found) for node, found in self._names.items()}
        for _, change in self._pending[: self._kept_names(style, cut, prng)]:
            _rename(names, change)
        contents = {
            node: _content(file, style, cut, prng)
            for entries in names.values()
            for node in entries.values()
            if (file := self._files.get(node)) is not None
        }
        return self._tree(names, contents)

    def keeping(self, keep_bytes: int, *, all_names: bool = False) -> Tree:
        """Returns the state in which the first `keep_bytes` of each file's unsynced writes survive; names are as last
        synced, or as they are now.
        """
        names = {node: dict(found) for node, found in self._names.items()}
        for _, change in self._pending if all_names else ():
            _rename(names, change)
        contents = {node: _first(file, keep_bytes) for node, file in self._files.items()}
        return self._tree(names, contents)

    def _kept_names(self, style: Style, cut: int, prng: Random) -> int:
        match style:
            case Style.LOST | Style.BYTES:
                return 0
            case Style.TORN:
                return sum(at <= cut for at, _ in self._pending)
            case Style.SECTORS:
                return prng.randint(0, len(self._pending))
            case _:
                return len(self._pending)

    def _tree(self, names: Mapping[int, Mapping[str, int]], contents: Mapping[int, bytes]) -> Tree:
        tree: Tree = {}

        def walk(path: str, node: int) -> None:
            tree[path] = None
            for name, child in names.get(node, {}).items():
                if child in contents:
                    tree[f"{path}/{name}"] = contents[child]
                else:
                    walk(f"{path}/{name}", child)

        for path, node in self._roots.items():
            walk(str(path), node)
        return tree


def _rename(names: dict[int, dict[str, int]], change: Create | Rename | Remove) -> None:
    if isinstance(change, Create):
        names[change.directory][change.name] = change.node
    else:
        node = names[change.directory].pop(change.name, None)
        if isinstance(change, Rename) and node is not None:
            names[change.target_directory][change.target_name] = node


def _apply(content: bytearray, change: Write | Resize) -> None:
    if isinstance(change, Resize):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
    else:
        content.extend(bytes(max(0, change.position - len(content))))
        content[change.position : change.position + len(change.data)] = change.data


def _content(file: _File, style: Style, cut: int, prng: Random) -> bytes:
    if not file.pending or style in (Style.LOST, Style.NAMES):
        return bytes(file.durable)
    whole = bytearray(file.durable)
    for at, change in file.pending:
        if style is Style.TORN and at >= cut:
            if at == cut and isinstance(change, Write):
                part = change.data[: prng.randint(0, len(change.data))]
                _apply(whole, Write(change.file, change.position, part))
            break
        _apply(whole, change)
    if style is Style.ZEROS:
        kept = bytes(file.durable[: len(whole)])
        return kept + bytes(len(whole) - len(kept))
    return _mixed(file.durable, whole, prng) if style is Style.SECTORS else bytes(whole)


def _mixed(old: bytearray, new: bytearray, prng: Random) -> bytes:
    """Returns data in which each sector has its old or its new content."""
    low, high = sorted((len(old), len(new)))
    size = prng.choice([len(old), len(new), prng.randint(low, high)])
    mixed = bytearray()
    for start in range(0, size, SECTOR_BYTES):
        chosen = prng.choice((old, new))
        mixed += bytes(chosen[start : start + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")
    return bytes(mixed[:size])


def _first(file: _File, keep_bytes: int) -> bytes:
    content = bytearray(file.durable)
    for _, change in file.pending:
        if isinstance(change, Write):
            if keep_bytes <= 0:
                break
            change = change._replace(data=change.data[:keep_bytes])
            keep_bytes -= len(change.data)
        _apply(content, change)
    return bytes(content)
