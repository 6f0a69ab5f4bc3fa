"""Finds node directories by what lies in them: log directories, partitions, segments. Ours and Apache Kafka's alike.

A log directory holds `meta.properties`; a partition's directory is called `TOPIC-N` and holds segments `*.log`, each
named by its first offset. Nothing is written and nothing is opened for longer than a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from log.directories.meta_properties import MetaProperties

METADATA_TOPIC = "__cluster_metadata"
DEPTH_MAX = 3  # a cluster's folder, a node's, its log directory; deeper is not ours to search


@dataclass(frozen=True, slots=True)
class LogDirectoryFound:
    """A log directory and the node it belongs to."""

    path: str
    node_id: int


@dataclass(frozen=True, slots=True)
class PartitionFound:
    """A partition's directory. `topic` may hold dashes; the last one parts it from the number."""

    path: str
    topic: str
    partition: int
    node_id: int


def find_log_directories(paths: Iterable[str]) -> list[LogDirectoryFound]:
    """All log directories at or below the given paths (globs are taken), by node id and path."""
    found = {
        d.path: d for path in paths for start in _expand(path) for d in _search(start, DEPTH_MAX)
    }
    return sorted(found.values(), key=lambda d: (d.node_id, d.path))


def _expand(path: str) -> Iterator[Path]:
    """The path itself, or what a glob matches."""
    if any(c in path for c in "*?["):
        root = Path(path[: min(path.index(c) for c in "*?[" if c in path)]).parent
        yield from sorted(root.glob(str(Path(path).relative_to(root))))
    else:
        yield Path(path)


def _search(folder: Path, depth: int) -> Iterator[LogDirectoryFound]:
    if (folder / "meta.properties").is_file():
        yield LogDirectoryFound(str(folder), MetaProperties.load(folder).node_id)
    elif depth and folder.is_dir():
        for child in sorted(folder.iterdir()):
            if child.is_dir():
                yield from _search(child, depth - 1)


def find_partitions(directory: LogDirectoryFound) -> list[PartitionFound]:
    """The partitions in a log directory, the metadata log's included; those being deleted are left out."""
    found = []
    for child in sorted(Path(directory.path).iterdir()):
        topic, dash, number = child.name.rpartition("-")
        if dash and number.isdigit() and child.is_dir():
            found.append(PartitionFound(str(child), topic, int(number), directory.node_id))
    return found
