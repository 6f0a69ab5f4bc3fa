"""A broker's disk in memory: it replaces the system calls of the file layer, and models the state after a crash. A
file's bytes are durable up to its last fdatasync, a directory's names up to its last fsync. A kill keeps everything. A
power cut keeps a prefix of the name changes, and for each file the durable bytes, or everything, or a part of the
appended bytes, or zeros in their place.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from trimaran.log.disk.files import Files, FileStatus, Volume
from trimaran.log.disk.open_files import OpenFiles

VOLUME = Volume(1 << 40, 1 << 39)


class Node:
    """A file; `durable` is its content at the last fdatasync. After a failed fdatasync nothing more becomes durable,
    although later ones report success.
    """

    __slots__ = ("content", "durable", "failed", "modified_ms")

    def __init__(self, content: bytes = b"", modified_ms: int = 0) -> None:
        self.content = bytearray(content)
        self.durable = content
        self.failed = False
        self.modified_ms = modified_ms


class Directory:
    """A directory; `durable` are its names at the last fsync. After a failed fsync no more names become durable, as in
    a `Node`.
    """

    __slots__ = ("durable", "failed", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node | Directory] = {}
        self.durable: dict[str, Node | Directory] = {}
        self.failed = False


class SimFile:
    """An open file, which outlives its name."""

    __slots__ = ("__weakref__", "_descriptor", "disk", "node", "path")

    def __init__(self, disk: SimDisk, node: Node, path: Path) -> None:
        self.disk = disk
        self.node = node
        self.path = path
        self._descriptor = -1

    def fileno(self) -> int:
        """Returns a number for `file_of`, assigned at the first call because few files need one."""
        if self._descriptor < 0:
            self._descriptor = next(_descriptors)
            _described[self._descriptor] = self
        return self._descriptor

    def sync(self) -> None:
        self.disk.fdatasync(self)


_descriptors = itertools.count()
_described: WeakValueDictionary[int, SimFile] = WeakValueDictionary()


def file_of(descriptor: int) -> SimFile:
    """Returns the file with a descriptor, from any disk; raises KeyError if it is closed."""
    return _described[descriptor]


OnCall = Callable[[str, Path, Path | None], object]
Change = tuple[Directory, Callable[[dict[str, Node | Directory]], None]]


class SimDisk(Files):
    """The disk; `kernel_syncs` is set for brokers with a `SimKernel`."""

    kernel_syncs = False

    def __init__(
        self,
        now_ms: Callable[[], int],
        root: Directory | None = None,
        *,
        kernel_syncs: bool = False,
    ) -> None:
        super().__init__(OpenFiles(10_000))
        self.kernel_syncs = kernel_syncs
        self.is_gone = False
        self.fails = False  # whether the next fdatasync fails
        self.has_failed = False  # whether an fdatasync has failed
        # Receives each call with its paths before it is carried out; may raise OSError, or end the process.
        self.on_call: OnCall | None = None
        self._now_ms = now_ms
        self._root = root or Directory()
        self._pending: list[Change] = []  # name changes since the last fsync

    # --- lookups

    def _find(self, path: Path) -> Node | Directory:
        found: Node | Directory = self._root
        for name in path.parts[1:]:
            if not isinstance(found, Directory):
                raise NotADirectoryError(str(path))
            try:
                found = found.names[name]
            except KeyError:
                raise FileNotFoundError(str(path)) from None
        return found

    def _directory(self, path: Path) -> Directory:
        found = self._find(path)
        if not isinstance(found, Directory):
            raise NotADirectoryError(str(path))
        return found

    def _file(self, path: Path) -> Node:
        found = self._find(path)
        if isinstance(found, Directory):
            raise IsADirectoryError(str(path))
        return found

    def _change(
        self, directory: Directory, change: Callable[[dict[str, Node | Directory]], None]
    ) -> None:
        change(directory.names)
        self._pending.append((directory, change))

    # --- the file layer

    def _call(self, name: str, path: Path, target: Path | None = None) -> None:
        if self.on_call is not None and not self.is_gone:
            self.on_call(name, path, target)

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Disables faults, for reads of the disk by the checker."""
        on_call, self.on_call = self.on_call, None
        try:
            yield
        finally:
            self.on_call = on_call

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> SimFile:  # type: ignore[override]
        directory = self._directory(path.parent)
        is_new = create and path.name not in directory.names
        self._call("create" if is_new else "open", path)
        if path.name not in directory.names:
            if not create:
                raise FileNotFoundError(str(path))
            node = Node(modified_ms=self._now_ms())
            self._change(directory, lambda names: names.__setitem__(path.name, node))
        return SimFile(self, self._file(path), path)

    def pwrite(self, file, data, position: int) -> None:
        node = file.node
        try:
            self._call("pwrite", file.path)
        except OSError:
            data = data[: len(data) // 2]  # the part for which there was room
            node.content[position : position + len(data)] = data
            raise
        if len(node.content) < position:
            node.content.extend(bytes(position - len(node.content)))
        node.content[position : position + len(data)] = data
        node.modified_ms = self._now_ms()

    def pread(self, file, size: int, position: int) -> bytes:
        self._call("pread", file.path)
        return bytes(file.node.content[position : position + size])

    def size(self, file) -> int:
        return len(file.node.content)

    def fdatasync(self, file) -> None:
        try:
            self._call("fdatasync", file.path)
            if self.fails:
                self.fails = False
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(file.path))
        except OSError:
            self.has_failed = file.node.failed = True
            raise
        if not file.node.failed:
            file.node.durable = bytes(file.node.content)

    def write_out(self, file, start: int, end: int) -> None:
        """Does nothing: writing out does not make data durable."""

    def fsync_directory(self, path: Path) -> None:
        synced = self._directory(path)
        try:
            self._call("fsync_directory", path)
        except OSError:
            synced.failed = True
            self._pending = [item for item in self._pending if item[0] is not synced]
            raise
        if synced.failed:
            return
        synced.durable = dict(synced.names)
        self._pending = [item for item in self._pending if item[0] is not synced]

    def sync_volume(self, path: Path) -> None:
        self._pending = []
        self._sync_all(self._root)

    def _sync_all(self, directory: Directory) -> None:
        directory.durable = dict(directory.names)
        for node in directory.names.values():
            if isinstance(node, Directory):
                self._sync_all(node)
            else:
                node.durable = bytes(node.content)

    def truncate(self, file, size: int) -> None:
        self._call("truncate", file.path)
        self._resize(file.node, size)

    def _resize(self, node: Node, size: int) -> None:
        del node.content[size:]
        node.content.extend(bytes(size - len(node.content)))

    def preallocate(self, file, size: int) -> None:
        self._call("preallocate", file.path)
        self._resize(file.node, max(size, len(file.node.content)))

    def lock(self, file) -> None:
        pass

    def unlock(self, file) -> None:
        pass

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", source, target)
        before, after = self._directory(source.parent), self._directory(target.parent)
        node = self._find(source)

        def move(names: dict[str, Node | Directory]) -> None:
            names.pop(source.name, None)
            names[target.name] = node

        assert before is after, "nothing here moves between directories"
        self._change(before, move)

    def unlink(self, path: Path) -> None:
        self._call("unlink", path)
        try:
            directory = self._directory(path.parent)
        except FileNotFoundError:
            return
        if isinstance(directory.names.get(path.name), Directory):
            raise IsADirectoryError(str(path))
        if path.name in directory.names:
            self._change(directory, lambda names: names.pop(path.name, None))

    def mkdir(self, path: Path) -> None:
        self._call("mkdir", path)
        directory = self._directory(path.parent)
        if path.name not in directory.names:
            made = Directory()
            self._change(directory, lambda names: names.__setitem__(path.name, made))

    def rmdir(self, path: Path) -> None:
        self._call("rmdir", path)
        directory = self._directory(path.parent)
        self._change(directory, lambda names: names.pop(path.name, None))

    def list_directory(self, path: Path) -> Sequence[str]:
        self._call("list", path)
        return sorted(self._directory(path).names)

    def read_bytes(self, path: Path) -> bytes:
        self._call("read_bytes", path)
        return bytes(self._file(path).content)

    def status(self, path: Path) -> FileStatus:
        found = self._find(path)
        if isinstance(found, Directory):
            return FileStatus(0, 0, is_regular=False)
        return FileStatus(len(found.content), found.modified_ms, is_regular=True)

    def set_modified(self, path: Path, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def is_directory(self, path: Path) -> bool:
        try:
            return isinstance(self._find(path), Directory)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def resolve(self, path: Path) -> Path:
        return path

    def volume(self, path: Path) -> Volume:
        return VOLUME

    # --- crashes

    def after_crash(self, prng: random.Random, *, power_cut: bool) -> SimDisk:
        """Returns the disk as the next process finds it; later writes to this one are lost."""
        self.is_gone = True
        if power_cut:
            kept = prng.randint(0, len(self._pending))
            for directory, change in self._pending[:kept]:
                change(directory.durable)
        root = _copy(self._root, prng, power_cut=power_cut)
        return SimDisk(self._now_ms, root, kernel_syncs=self.kernel_syncs)


def _copy(directory: Directory, prng: random.Random, *, power_cut: bool) -> Directory:
    made = Directory()
    for name, node in (directory.durable if power_cut else directory.names).items():
        copied: Node | Directory
        if isinstance(node, Directory):
            copied = _copy(node, prng, power_cut=power_cut)
        else:
            copied = _copy_file(node, prng, power_cut=power_cut)
        made.names[name] = copied
        if power_cut or directory.durable.get(name) is node:
            made.durable[name] = copied
    return made


def _copy_file(node: Node, prng: random.Random, *, power_cut: bool) -> Node:
    if not power_cut:
        copied = Node(bytes(node.content), node.modified_ms)
        copied.durable = node.durable
        return copied
    return Node(_left(bytes(node.content), node.durable, prng), node.modified_ms)


def _left(content: bytes, durable: bytes, prng: random.Random) -> bytes:
    if content == durable:
        return durable
    kind = prng.choice(("lost", "lost", "kept", "torn", "zeros"))
    if kind == "lost":
        return durable
    if kind == "kept" or not content.startswith(durable):
        return content
    size = prng.randint(len(durable), len(content))
    return content[:size] if kind == "torn" else durable + bytes(size - len(durable))
