"""Finds node directories by their contents: log directories, partitions and segments, both ours and Apache Kafka's.

A log directory holds `meta.properties`; a partition's directory is called `TOPIC-N` and holds segments `*.log`, each
named by its first offset. A path may also name a partition's directory or one segment. No file is written, and none
stays open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trimaran.log.directories.meta_properties import FILE_NAME, MetaProperties, MetaPropertiesError
from trimaran.log.disk.partition_metadata import (
    PartitionMetadataDamaged,
    read_partition_metadata,
)
from trimaran.log.inspection.reader import SegmentFile
from trimaran.log.partitions.names import partition_of
from trimaran.log.segments.recovery import base_offset_of
from trimaran.log.segments.segment import DELETED_SUFFIX, LOG_SUFFIX
from trimaran.spark.options import OptionError
from trimaran.spark.origins.damage import lose, unreadable
from trimaran.spark.origins.directories.storage import LOCAL, Entry, FileStorage, expand, locate
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.identity import NO_NODE, NodeId, TopicPartition

METADATA_TOPIC = "__cluster_metadata"
# The levels are the folder of a cluster, of a node, and its log directory; deeper levels are not searched.
DEPTH_MAX = 3
UNKNOWN_NODE = NO_NODE
STORAGE = "storage."  # the prefix of options for fsspec
StorageOptions = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LogDirectoryFound:
    """A log directory and its node.

    `only` has the partitions (and the segments, by base offset) that the user named; empty means all.
    """

    path: str
    node_id: NodeId
    cluster_id: str = ""
    storage: FileStorage = LOCAL
    only: frozenset[tuple[str, int | None]] = frozenset()


@dataclass(frozen=True, slots=True)
class PartitionFound:
    """A partition's directory."""

    path: str
    key: TopicPartition
    node_id: NodeId
    log_dir: str = ""
    storage: FileStorage = LOCAL
    only: frozenset[int] = frozenset()
    cluster_id: str = ""

    @property
    def url(self) -> str:
        return self.storage.url(self.path)


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of a partition's directory: segments by base offset, and the names of all other files."""

    segments: tuple[SegmentFile, ...]
    others: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_being_trimmed(self) -> bool:
        """Whether retention has just renamed segments, which it does before it removes them."""
        return any(name.endswith(LOG_SUFFIX + DELETED_SUFFIX) for name in self.others)


def find_log_directories(
    paths: Iterable[str], options: StorageOptions = (), *, fail: bool = True
) -> list[LogDirectoryFound]:
    """Returns all log directories at or below the given paths (which may be globs), sorted by node id and path.

    Raises:
        OptionError: they belong to two clusters, or cannot be read from here.
        DataUnreadable: a directory or its `meta.properties` cannot be read; without `fail` this is a warning, and the
            directory is omitted.
    """
    found: dict[tuple[FileStorage, str], LogDirectoryFound] = {}
    for given in paths:
        storage, located = locate(given, options)
        for start in expand(storage, located):
            for directory in _found_at(storage, start, fail):
                key = storage, directory.path
                known = found.get(key)
                if known is not None and known.only and directory.only:
                    directory = _both(known, directory)
                if known is None or known.only:
                    found[key] = directory
    directories = sorted(found.values(), key=lambda d: (d.node_id, d.path))
    _ensure_one_cluster(directories)
    return directories


def _both(one: LogDirectoryFound, other: LogDirectoryFound) -> LogDirectoryFound:
    return LogDirectoryFound(
        one.path, one.node_id, one.cluster_id, one.storage, one.only | other.only
    )


def _ensure_one_cluster(directories: Iterable[LogDirectoryFound]) -> None:
    first: LogDirectoryFound | None = None
    for directory in directories:
        if not directory.cluster_id:
            continue
        if first is not None and directory.cluster_id != first.cluster_id:
            raise OptionError(
                f"directories of two clusters: {first.path} is of {first.cluster_id}, {directory.path} of "
                f"{directory.cluster_id}; their topics would be mixed up: load one cluster at a time"
            )
        first = first or directory


def _found_at(storage: FileStorage, path: str, fail: bool) -> Iterator[LogDirectoryFound]:
    """Finds the log directories at one path: a segment, a partition's directory, a log directory, or a folder of
    such.
    """
    try:
        named = _named(storage, path)
    except OSError as error:
        lose(unreadable(error, storage.url(path)), fail=fail)
    else:
        yield from _search(storage, path, DEPTH_MAX, fail) if named is None else (named,)


def _named(storage: FileStorage, path: str) -> LogDirectoryFound | None:
    """Returns the log directory of the segment or partition that a path names; None for other paths."""
    name, parent = Path(path).name, str(Path(path).parent)
    base_offset = base_offset_of(name, LOG_SUFFIX)
    if base_offset is not None and storage.is_file(path):
        return _directory_of(storage, str(Path(parent).parent), (Path(parent).name, base_offset))
    if (
        partition_of(name) is not None
        and not storage.is_file(str(Path(path) / FILE_NAME))
        and storage.is_directory(path)
        and any(
            base_offset_of(entry.name, LOG_SUFFIX) is not None for entry in storage.entries(path)
        )
    ):
        return _directory_of(storage, parent, (name, None))
    return None


def _directory_of(
    storage: FileStorage, path: str, only: tuple[str, int | None]
) -> LogDirectoryFound:
    """Returns the log directory of a partition that the user named; it may be missing if only the partition was
    copied.
    """
    if partition_of(only[0]) is None:
        raise OptionError(
            f"{storage.url(path)}/{only[0]}: a segment must be in a directory named TOPIC-PARTITION"
        )
    if storage.is_file(str(Path(path) / FILE_NAME)):
        directory = _log_directory(storage, path)
        node_id, cluster_id = directory.node_id, directory.cluster_id
    else:
        node_id, cluster_id = UNKNOWN_NODE, ""
    return LogDirectoryFound(path, node_id, cluster_id, storage, frozenset({only}))


def _log_directory(storage: FileStorage, path: str) -> LogDirectoryFound:
    try:
        properties = MetaProperties.load(Path(path), storage.files)
    except MetaPropertiesError as error:
        raise DataUnreadable(str(error)) from None
    return LogDirectoryFound(path, NodeId(properties.node_id), properties.cluster_id, storage)


def _search(
    storage: FileStorage, folder: str, depth: int, fail: bool
) -> Iterator[LogDirectoryFound]:
    entries: list[Entry] = []
    try:
        entries = storage.entries(folder)
        if any(entry.name == FILE_NAME and not entry.is_directory for entry in entries):
            yield _log_directory(storage, folder)
            return
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        lose(unreadable(error, storage.url(folder)), fail=fail)
    except DataUnreadable as error:
        lose(str(error), fail=fail)
        return
    for entry in entries if depth else ():
        if entry.is_directory:
            yield from _search(storage, str(Path(folder) / entry.name), depth - 1, fail)


def find_partitions(directory: LogDirectoryFound) -> list[PartitionFound]:
    """Returns the partitions in a log directory, including the metadata log, except those being deleted."""
    if directory.only:
        names = sorted({name for name, _ in directory.only})
    else:
        names = [e.name for e in directory.storage.entries(directory.path) if e.is_directory]
    found = []
    for name in names:
        if (topic_partition := partition_of(name)) is not None:
            bases = {base for other, base in directory.only if other == name}
            found.append(
                PartitionFound(
                    str(Path(directory.path) / name),
                    topic_partition,
                    directory.node_id,
                    directory.path,
                    directory.storage,
                    frozenset() if None in bases else frozenset(b for b in bases if b is not None),
                    directory.cluster_id,
                )
            )
    return found


def topic_id_of(found: PartitionFound) -> str:
    """Returns the id of the topic in a partition's directory as text; empty if it is not there, or is damaged. Raises
    OSError.
    """
    try:
        topic_id = read_partition_metadata(Path(found.path), found.storage.files)
    except PartitionMetadataDamaged:
        return ""
    return "" if topic_id is None else uuid_to_text(topic_id)


def list_partition(found: PartitionFound) -> Listing:
    """Lists a partition's directory. Raises OSError."""
    segments, others = [], []
    for entry in found.storage.entries(found.path):
        base_offset = base_offset_of(entry.name, LOG_SUFFIX)
        if base_offset is None or entry.is_directory:
            others.append(entry.name)
        elif not found.only or base_offset in found.only:
            segments.append(
                SegmentFile(str(Path(found.path) / entry.name), base_offset, entry.size)
            )
    return Listing(tuple(segments), frozenset(others))
