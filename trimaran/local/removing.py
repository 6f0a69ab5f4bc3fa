"""Deletes a stopped local cluster: its own files, and no others in its directory."""

from __future__ import annotations

import shutil
from pathlib import Path

from trimaran.local import control, lock, state_file
from trimaran.local.layout import CONTROL_LOG, SUPERVISOR_LOG
from trimaran.local.state_file import ClusterState


def made_by(data: Path, state: ClusterState) -> list[Path]:
    """Returns the cluster's own paths in `data`, existing or not, in the order of their deletion."""
    nodes = state_file.plan_of(data, state).nodes
    of_nodes = [
        path for node in nodes for path in (node.directory, node.properties_file, node.log_file)
    ]
    names = (
        control.SOCKET_NAME,
        SUPERVISOR_LOG,
        CONTROL_LOG,
        state_file.TEMPORARY_NAME,
        state_file.FILE_NAME,
        lock.FILE_NAME,
    )
    return [*of_nodes, *(data / name for name in names)]


def kept_in(data: Path, state: ClusterState) -> list[str]:
    """Returns the names of files that do not belong to the cluster."""
    return sorted({path.name for path in data.iterdir()} - {p.name for p in made_by(data, state)})


def remove_cluster(data: Path, state: ClusterState) -> list[str]:
    """Deletes the cluster and returns the names of the remaining files in `data`, which is deleted, too, if no files
    remain. Raises OSError.

    `cluster.json` is deleted after all data, so that a failed removal can be repeated.
    """
    for path in made_by(data, state):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    kept = sorted(path.name for path in data.iterdir())
    if not kept:
        data.rmdir()
    return kept
