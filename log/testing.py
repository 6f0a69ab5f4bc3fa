"""`FaultyFiles`: the seam of `log/files.py` with failing calls, and crashes that lose what was not synced.

Ships with the package: the whole-stack simulation uses it too. It works on real files in a directory of the test.

What a crash keeps: of a file's bytes those at its last fdatasync, and of the writes since then a prefix in order, the last
one possibly cut at any byte (`crash(keep_bytes=…)`). Of names those at the last fsync of their directory: a file created, renamed or
removed since is undone. Not modelled: reordered pages, lost renames of directories.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from log.files import Files, FileStatus, OpenFile
from log.open_files import OpenFiles


@dataclass(slots=True)
class _Unsynced:
    """Writes to one file since its last fdatasync, and what it held then."""

    durable: bytes
    writes: list[tuple[int, bytes]] = field(
        default_factory=list
    )  # (position, data); truncation: (size, b"")


class FaultyFiles(Files):
    """Real calls, counted by name; `fail_at` makes the nth raise, `crash` takes unsynced work back.

    After `fail_at(…, sticky=True)` every later call of that name fails too, as on a dead disk.
    """

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        super().__init__(open_files)
        self.calls: Counter[str] = Counter()
        self._faults: dict[str, tuple[int, int, bool]] = {}  # name: (nth, errno, sticky)
        self._unsynced: dict[Path, _Unsynced] = {}
        self._new_names: dict[Path, bytes | None] = {}  # path: what the name stood for durably
        self.short_write: Callable[[int], int] | None = (
            None  # size → bytes that reach the file before the error
        )

    def fail_at(
        self, call: str, nth: int = 1, error: int = errno.EIO, *, sticky: bool = False
    ) -> None:
        """The `nth` call of `call` from now on raises `error`."""
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
        if create and not path.exists():
            self._note_name(path)
        return super().open(path, create=create, write=write)

    def pwrite(self, file: OpenFile, data: bytes | bytearray | memoryview, position: int) -> None:
        try:
            self._count("pwrite")
        except OSError:
            if self.short_write is not None:
                part = bytes(data)[: self.short_write(len(data))]
                self._note(file).writes.append((position, part))
                super().pwrite(file, part, position)
            raise
        self._note(file).writes.append((position, bytes(data)))
        super().pwrite(file, data, position)

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        self._count("pread")
        return super().pread(file, size, position)

    def fdatasync(self, file: OpenFile) -> None:
        self._count("fdatasync")
        super().fdatasync(file)
        self._unsynced.pop(file.path, None)

    def fsync_directory(self, path: Path) -> None:
        self._count("fsync_directory")
        super().fsync_directory(path)
        for name in [name for name in self._new_names if name.parent == path]:
            del self._new_names[name]

    def sync_volume(self, path: Path) -> None:
        self._count("sync_volume")
        super().sync_volume(path)
        self._unsynced.clear()
        self._new_names.clear()

    def truncate(self, file: OpenFile, size: int) -> None:
        self._count("truncate")
        if size != self.size(file):
            self._note(file).writes.append((size, b""))
        super().truncate(file, size)

    def rename(self, source: Path, target: Path) -> None:
        self._count("rename")
        if not source.is_dir():
            self._note_name(source)
            self._note_name(target)
            if source in self._unsynced:
                self._unsynced[target] = self._unsynced.pop(source)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._count("unlink")
        if path.exists():
            self._note_name(path)
        self._unsynced.pop(path, None)
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        self._count("mkdir")
        super().mkdir(path)

    def rmdir(self, path: Path) -> None:
        self._count("rmdir")
        super().rmdir(path)

    def list_directory(self, path: Path) -> Sequence[str]:
        self._count("list_directory")
        return super().list_directory(path)

    def read_bytes(self, path: Path) -> bytes:
        self._count("read_bytes")
        return super().read_bytes(path)

    def status(self, path: Path) -> FileStatus:
        self._count("status")
        return super().status(path)

    def preallocate(self, file: OpenFile, size: int) -> None:
        self._count("preallocate")
        if size > self.size(file):
            self._note(file).writes.append((size, b""))
        super().preallocate(file, size)

    # Crashing

    def _note(self, file: OpenFile) -> _Unsynced:
        known = self._unsynced.get(file.path)
        if known is None:
            durable = os.pread(file.fileno(), self.size(file), 0)
            known = self._unsynced[file.path] = _Unsynced(durable)
        return known

    def _note_name(self, path: Path) -> None:
        if path in self._new_names:
            return
        known = self._unsynced.get(path)
        if known is not None:
            self._new_names[path] = known.durable
        else:
            self._new_names[path] = path.read_bytes() if path.exists() else None

    @property
    def unsynced_bytes(self) -> int:
        """How many written bytes a crash could lose."""
        return sum(len(data) for file in self._unsynced.values() for _, data in file.writes)

    def crash(self, keep_bytes: int = 0) -> None:
        """Puts the disk into a state after power loss: of each file's unsynced writes the first `keep_bytes` survive.

        The objects that used these files must not be used any more.
        """
        for path, unsynced in self._unsynced.items():
            if path.exists():
                path.write_bytes(_replay(unsynced, keep_bytes))
        for path, content in self._new_names.items():
            if content is None:
                path.unlink(missing_ok=True)
            elif path.parent.exists():
                path.write_bytes(content)
        self._unsynced.clear()
        self._new_names.clear()


def _replay(unsynced: _Unsynced, keep_bytes: int) -> bytes:
    content = bytearray(unsynced.durable)
    for position, data in unsynced.writes:
        if not data:
            del content[position:]
            content.extend(bytes(position - len(content)))
            continue
        if keep_bytes <= 0:
            break
        kept = data[:keep_bytes]
        keep_bytes -= len(kept)
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(kept)] = kept
    return bytes(content)
