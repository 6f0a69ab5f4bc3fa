"""Deletes a stopped local cluster: what it made, and nothing else that somebody keeps in its directory."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from trimaran.local import control, lock, state_file
from trimaran.local.layout import SUPERVISOR_LOG
from trimaran.local.state_file import ClusterState


def remove_cluster(data: Path, state: ClusterState) -> list[str]:
    """The names of what is left in `data`, which itself goes when that is nothing. Raises OSError.

    `cluster.json` goes last, so that a removal that failed can be asked for again.
    """
    for node in state_file.plan_of(data, state).nodes:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(node.directory)
        for file in (node.properties_file, node.log_file):
            file.unlink(missing_ok=True)
    for name in (
        control.SOCKET_NAME,
        SUPERVISOR_LOG,
        state_file.TEMPORARY_NAME,
        state_file.FILE_NAME,
    ):
        (data / name).unlink(missing_ok=True)
    (data / lock.FILE_NAME).unlink(missing_ok=True)
    kept = sorted(path.name for path in data.iterdir())
    if not kept:
        data.rmdir()
    return kept
