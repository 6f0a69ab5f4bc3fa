"""File systems with node directories: the local one, or any that fsspec supports (`s3://`, `hdfs://` …).

A `FileStorage` travels to executors by pickle and opens its file system there once. Paths inside it are plain; `url`
and `locate` convert between them and the user's form. No file is ever written.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.log.disk.files import REAL_FILES, Files, OpenFile
from trimaran.spark.options import OptionError
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import fsspec
else:
    fsspec = imported_later("fsspec")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LOCAL_SCHEMES = ("file", "local")
# Packages to install for schemes for which fsspec names other packages.
_DRIVERS = {
    "hdfs": "hdfs-native, or pyarrow with libhdfs (HADOOP_HOME, JAVA_HOME and CLASSPATH set)"
}


class Entry(NamedTuple):
    """An entry of a directory; `size` is that of a file, in bytes."""

    name: str
    is_directory: bool
    size: int


@dataclass(frozen=True, slots=True)
class FileStorage:
    """A file system. `root` is empty for local files, else scheme and host, such as `s3://bucket`; `options` are passed
    to fsspec.
    """

    root: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> Files:
        """Returns the functions that read files of this storage. Raises OptionError if the driver is missing or does
        not connect.
        """
        return _remote(self) if self.root else REAL_FILES

    def entries(self, path: str) -> list[Entry]:
        """Lists a directory by name. Raises OSError."""
        if isinstance(files := self.files, RemoteFiles):
            return files.entries(path)
        with os.scandir(path) as found:
            return sorted(entry for child in found if (entry := _local_entry(child)) is not None)

    def is_directory(self, path: str) -> bool:
        return self.files.is_directory(Path(path))

    def is_file(self, path: str) -> bool:
        if isinstance(files := self.files, RemoteFiles):
            return files.is_file(path)
        return Path(path).is_file()

    def url(self, path: str) -> str:
        """Returns the path as users write it."""
        if isinstance(files := self.files, RemoteFiles):
            return files.url(path)
        return path


LOCAL = FileStorage()


def _local_entry(child: os.DirEntry[str]) -> Entry | None:
    """Returns the entry; None if it was deleted meanwhile, or is a circular link. Raises OSError."""
    try:
        if child.is_dir():
            return Entry(child.name, True, 0)
        found = child.stat()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return None
    return Entry(child.name, False, found.st_size) if stat.S_ISREG(found.st_mode) else None


def locate(given: str, options: tuple[tuple[str, str], ...] = ()) -> tuple[FileStorage, str]:
    """Returns the storage and the path in it for a user's path; a relative path is resolved in the directory of this
    process.

    Raises:
        OptionError: fsspec does not support the scheme, or its driver is not installed.
    """
    scheme = _SCHEME.match(given)
    if scheme is None and given.startswith("file:/"):
        return LOCAL, given.removeprefix("file:")
    if scheme is None:
        return LOCAL, str(Path(given).expanduser().absolute())
    if scheme[1].lower() in _LOCAL_SCHEMES:
        host, slash, path = given[scheme.end() :].partition("/")
        if host not in ("", "localhost") or not slash:
            raise OptionError(
                f"{given}: write file:///PATH; {host or 'nothing'} is taken as a host name"
            )
        return LOCAL, "/" + path
    host = given[scheme.end() :].partition("/")[0]
    storage = FileStorage(f"{scheme[0]}{host}", options)
    return storage, _remote(storage).strip(given)


def expand(storage: FileStorage, path: str) -> Iterator[str]:
    """Returns the path itself, or the matches of a glob, sorted."""
    if not any(c in path for c in "*?["):
        yield path
    elif isinstance(files := storage.files, RemoteFiles):
        yield from files.glob(path)
    else:
        root = Path(path[: min(path.index(c) for c in "*?[" if c in path)]).parent
        yield from sorted(map(str, root.glob(str(Path(path).relative_to(root)))))


@lru_cache(maxsize=16)  # shared in a process, since each file system costs a connection
def _remote(storage: FileStorage) -> RemoteFiles:
    try:
        url_to_fs = fsspec.core.url_to_fs
    except ImportError:
        raise OptionError(
            f"{storage.root}: reading from there needs the package fsspec: pip install fsspec"
        ) from None
    scheme = storage.root.partition("://")[0]
    try:
        system = url_to_fs(storage.root + "/", **dict(storage.options))[0]
    except ImportError as error:
        needed = _DRIVERS.get(scheme, str(error).rstrip("."))
        raise OptionError(
            f"{storage.root}: the driver of fsspec for {scheme}:// is not installed here: {needed}; driver and "
            "executors both need it"
        ) from None
    except ValueError as error:  # an unknown scheme
        raise OptionError(f"{storage.root}: {error}") from None
    except Exception as error:  # a driver may raise any exception
        raise OptionError(f"{storage.root}: the file system does not open: {error}") from error
    return RemoteFiles(system)


class _Raising:
    """A file system of fsspec whose methods raise only OSError: drivers raise errors of their libraries, for example
    if there are no credentials.
    """

    def __init__(self, system: Any) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._system, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            except OSError:
                raise
            except Exception as error:
                raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error

        return called


class RemoteFile(OpenFile):
    """An open file, which is only a name: each read requests a range of bytes."""

    __slots__ = ("size",)

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "no file of this machine", str(self.path))

    def __del__(self) -> None:
        pass


class RemoteFiles(Files):
    """The reading methods of `Files` over a file system of fsspec; methods that would write raise an exception."""

    def __init__(self, system: Any) -> None:
        super().__init__()
        self._system = _Raising(system)

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OpenFile:
        if create or write:
            raise OSError(errno.EROFS, "only read here", str(path))
        return RemoteFile(path, self._info(path)["size"])

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        assert isinstance(file, RemoteFile)
        end = min(position + size, file.size)
        if position >= end:
            return b""
        return bytes(self._system.cat_file(str(file.path), start=position, end=end))

    def size(self, file: OpenFile) -> int:
        assert isinstance(file, RemoteFile)
        return file.size

    def read_bytes(self, path: Path) -> bytes:
        return bytes(self._system.cat_file(str(path)))

    def list_directory(self, path: Path) -> Sequence[str]:
        return [entry.name for entry in self.entries(str(path))]

    def is_directory(self, path: Path) -> bool:
        return bool(self._system.isdir(str(path)))

    def is_file(self, path: str) -> bool:
        return bool(self._system.isfile(path))

    def entries(self, path: str) -> list[Entry]:
        """Lists a directory without the driver's cache, which would hide new files."""
        self._system.invalidate_cache(path)
        return sorted(
            Entry(
                PurePosixPath(entry["name"]).name, entry["type"] == "directory", entry["size"] or 0
            )
            for entry in self._system.ls(path, detail=True)
            if PurePosixPath(entry["name"]) != PurePosixPath(path)
        )

    def glob(self, pattern: str) -> list[str]:
        return sorted(self._system.glob(pattern))

    def strip(self, url: str) -> str:
        # This is fsspec's method for this, in spite of its name.
        return str(self._system._strip_protocol(url))  # noqa: SLF001

    def url(self, path: str) -> str:
        return str(self._system.unstrip_protocol(path))

    def _info(self, path: Path) -> Any:
        info = self._system.info(str(path))
        if info["type"] != "file":
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return info
