"""Remembers the contents of the directory of `up`, so that a failed `up` can restore it."""

from __future__ import annotations

import shutil
from pathlib import Path

from trimaran.local import state_file

# Patterns for the files of nodes with an id, and for files of other nodes; logs stay, since they explain the failure.
_MADE = ("controller-*[0-9]", "broker-*[0-9]", "zookeeper", "mirror", "console")
_WRITTEN = (state_file.FILE_NAME, "controller-*.properties", "broker-*.properties")


class Undo:
    """Remembers names and small files (about 1 KiB per node); the data of existing nodes is never touched."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._before = set(data.iterdir())
        self._texts = {
            path: path.read_bytes() for path in _matching(data, _WRITTEN) if path.is_file()
        }

    def run(self) -> None:
        """Removes newly formatted directories, and restores overwritten files. Call it when no new node runs."""
        for path in _matching(self._data, (*_MADE, *_WRITTEN)) - self._before:
            _remove(path)
        for path, text in self._texts.items():
            path.write_bytes(text)


def _matching(data: Path, patterns: tuple[str, ...]) -> set[Path]:
    return {path for pattern in patterns for path in data.glob(pattern)}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
