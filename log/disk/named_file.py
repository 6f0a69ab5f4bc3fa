"""A file referred to by name: it is opened when used, closed when too many files are open (`log/disk/open_files.py`),
and reopened.
"""

from __future__ import annotations

from pathlib import Path

from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.disk.open_files import ReopenedFile


class NamedFile(ReopenedFile[OpenFile]):
    """A file that is open while it is used; `get` reopens it by name.

    The name must refer to the same file while this object is used.
    """

    __slots__ = ("_files", "path")

    def __init__(self, path: Path, files: Files) -> None:
        super().__init__()
        self.path = path
        self._files = files

    def get(self, *, create: bool = False) -> OpenFile:
        """Returns the open file; keep the reference only while it is needed. Raises OSError."""
        file = self._file  # another thread may close it between two accesses
        if file is None:
            file = self._file = self._files.open(self.path, create=create)
            self._files.open_files.note(self)
        self.used = True
        return file
