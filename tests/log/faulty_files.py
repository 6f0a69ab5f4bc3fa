"""`FaultyFiles`: an implementation of `log/disk/files.py` that counts and records every call, fails on request, and
loses power.

It works on real files in a directory of the test, and syncs nothing: the recording shows what would be durable
(`tests/log/power_loss.py`), and a crash reduces the files to that.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from tests.log.power_loss import (
    Create,
    Disk,
    Operation,
    Recording,
    Remove,
    Rename,
    Resize,
    Sync,
    SyncDirectory,
    SyncVolume,
    Tree,
    Write,
)
from trimaran.log.disk.files import Files, FileStatus, OpenFile
from trimaran.log.disk.open_files import OpenFiles


class FaultyFiles(Files):
    """Real calls, counted by name; `fail_at` makes the nth raise, `crash` undoes unsynced work.

    After `fail_at(…, sticky=True)` every later call of that name fails too, as on a dead disk. `bytes_read` counts the
    bytes returned by `pread` and `read_bytes`.
    """

    kernel_syncs = False

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        super().__init__(open_files)
        self.calls: Counter[str] = Counter()
        self.written_out: list[tuple[str, int, int]] = []
        self.bytes_read = 0
        self.recording = Recording()
        self.on_operation: Callable[[Operation], None] | None = (
            None  # called with each operation after it is done
        )
        self.short_write: Callable[[int], int] | None = (
            None  # size → bytes that reach the file before the error
        )
        self._faults: dict[str, tuple[int, int, bool]] = {}  # name: (nth, errno, sticky)
        self._nodes: dict[tuple[int, int], int] = {}  # (device, inode): node
        self._numbers = count(1)

    def fail_at(
        self, call: str, nth: int = 1, error: int = errno.EIO, *, sticky: bool = False
    ) -> None:
        """Makes the `nth` call of `call` from now on raise `error`."""
        self._faults[call] = (self.calls[call] + nth, error, sticky)

    def _count(self, call: str) -> None:
        self.calls[call] += 1
        fault = self._faults.get(call)
        if fault is None:
            return
        nth, error, sticky = fault
        if self.calls[call] == nth or (sticky and self.calls[call] > nth):
            raise OSError(error, os.strerror(error))

    # The calls

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OpenFile:
        self._count("open")
        is_new = create and not os.path.lexists(path)
        parent = self._directory(path.parent) if is_new else 0
        file = super().open(path, create=create, write=write)
        if is_new:
            node = self._new_node(os.fstat(file.fileno()))
            self._record(Create(parent, path.name, node, is_directory=False))
        return file

    def pwrite(self, file: OpenFile, data: bytes | bytearray | memoryview, position: int) -> None:
        node = self._file(file)
        try:
            self._count("pwrite")
        except OSError:
            if self.short_write is not None:
                part = bytes(data)[: self.short_write(len(data))]
                super().pwrite(file, part, position)
                self._record(Write(node, position, part))
            raise
        super().pwrite(file, data, position)
        self._record(Write(node, position, bytes(data)))

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        self._count("pread")
        data = super().pread(file, size, position)
        self.bytes_read += len(data)
        return data

    def fdatasync(self, file: OpenFile) -> None:
        self._count("fdatasync")
        self._record(Sync(self._file(file)))

    def kernel_sync(self, descriptor: int) -> None:
        """Does the same as `fdatasync`, for a kernel that has only the descriptor."""
        self._count("fdatasync")
        status = os.fstat(descriptor)
        self._record(Sync(self._nodes[status.st_dev, status.st_ino]))

    def write_out(self, file: OpenFile, start: int, end: int) -> None:
        self._count("write_out")
        self.written_out.append((file.path.name, start, end))
        super().write_out(file, start, end)

    def fsync_directory(self, path: Path) -> None:
        self._count("fsync_directory")
        self._record(SyncDirectory(self._directory(path)))

    def sync_volume(self, path: Path) -> None:
        self._count("sync_volume")
        self._directory(path)
        self._record(SyncVolume())

    def truncate(self, file: OpenFile, size: int) -> None:
        self._count("truncate")
        node = self._file(file)
        is_change = size != self.size(file)
        super().truncate(file, size)
        if is_change:
            self._record(Resize(node, size))

    def preallocate(self, file: OpenFile, size: int) -> None:
        self._count("preallocate")
        node = self._file(file)
        is_longer = size > self.size(file)
        super().preallocate(file, size)
        if is_longer:
            self._record(Resize(node, size))

    def rename(self, source: Path, target: Path) -> None:
        self._count("rename")
        nodes = self._directory(source.parent), self._directory(target.parent)
        super().rename(source, target)
        self._record(Rename(nodes[0], source.name, nodes[1], target.name))

    def unlink(self, path: Path) -> None:
        self._count("unlink")
        if os.path.lexists(path):
            parent = self._directory(path.parent)
            super().unlink(path)
            self._record(Remove(parent, path.name))

    def mkdir(self, path: Path) -> None:
        self._count("mkdir")
        is_new = not os.path.lexists(path)
        parent = self._directory(path.parent)
        super().mkdir(path)
        if is_new:
            self._record(
                Create(parent, path.name, self._new_node(os.stat(path)), is_directory=True)
            )

    def rmdir(self, path: Path) -> None:
        self._count("rmdir")
        parent = self._directory(path.parent)
        super().rmdir(path)
        self._record(Remove(parent, path.name))

    def list_directory(self, path: Path) -> Sequence[str]:
        self._count("list_directory")
        return super().list_directory(path)

    def read_bytes(self, path: Path) -> bytes:
        self._count("read_bytes")
        data = super().read_bytes(path)
        self.bytes_read += len(data)
        return data

    def status(self, path: Path) -> FileStatus:
        self._count("status")
        return super().status(path)

    # Recording

    def _record(self, operation: Operation) -> None:
        self.recording.operations.append(operation)
        if self.on_operation is not None:
            self.on_operation(operation)

    def _new_node(self, status: os.stat_result) -> int:
        node = next(self._numbers)  # inodes are reused, nodes never are
        self._nodes[status.st_dev, status.st_ino] = node
        return node

    def _file(self, file: OpenFile) -> int:
        status = os.fstat(file.fileno())
        key = status.st_dev, status.st_ino
        if key not in self._nodes:
            self._directory(file.path.parent)
        if key not in self._nodes:  # the file has no name any more
            node = self._new_node(status)
            self.recording.files[node] = os.pread(file.fileno(), status.st_size, 0)
        return self._nodes[key]

    def _directory(self, path: Path) -> int:
        """Returns the node of a directory; when it is first used, its content counts as durable. Raises OSError."""
        status = os.stat(path)
        node = self._nodes.get((status.st_dev, status.st_ino))
        if node is None:
            node = self._meet(path, status)
            roots = self.recording.roots
            for below in [root for root in roots if path in root.parents]:
                del roots[below]
            roots[path] = node
        return node

    def _meet(self, path: Path, status: os.stat_result) -> int:
        node = self._new_node(status)
        names = self.recording.directories[node] = {}
        for found in os.scandir(path):
            child = os.stat(found.path, follow_symlinks=False)
            known = self._nodes.get((child.st_dev, child.st_ino))
            if known is None and found.is_dir(follow_symlinks=False):
                known = self._meet(Path(found.path), child)
            elif known is None and found.is_file(follow_symlinks=False):
                known = self._new_node(child)
                self.recording.files[known] = Path(found.path).read_bytes()
            if known is not None:
                names[found.name] = known
        return node

    # Crashing

    def watch(self, path: Path) -> None:
        """Makes everything below the directory `path` count as durable, and as part of what a crash leaves. Raises
        OSError.
        """
        self._directory(path)

    @property
    def disk(self) -> Disk:
        """Returns its present state."""
        disk = Disk(self.recording)
        for operation in self.recording.operations:
            disk.apply(operation)
        return disk

    @property
    def unsynced_bytes(self) -> int:
        """Returns how many written bytes a crash could lose."""
        return self.disk.unsynced_bytes

    def crash(self, keep_bytes: int = 0) -> None:
        """Reduces the files to their state after a power loss: of each file's unsynced writes the first `keep_bytes`
        survive.

        Objects that used these files, and this one, must not be used any more.
        """
        disk = self.disk
        make_so(disk.keeping(keep_bytes), instead_of=disk.keeping(1 << 62, all_names=True))


def make_so(tree: Tree, *, instead_of: Tree) -> None:
    """Changes real files and directories from one state to another."""
    for path in reversed(instead_of):
        if path not in tree:
            os.rmdir(path) if instead_of[path] is None else os.unlink(path)
    for path, content in tree.items():
        if path in instead_of and instead_of[path] == content:
            continue
        if content is None:
            os.mkdir(path)
        else:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            os.write(fd, content)
            os.close(fd)
