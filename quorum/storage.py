"""Formatting the directories of a node, and what a formatted directory says to start with.

    meta.properties         whose directory it is (written last: with it a directory is formatted)
    bootstrap.checkpoint    records that the first active controller of an empty log writes

Source: Kafka's `StorageTool`, `Formatter`, `BootstrapDirectory`; the same files at the same places. Left out: SCRAM credentials,
dynamic voters (kraft.version 1), feature levels other than those of 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from log.atomic_file import write_atomically
from log.files import REAL_FILES, Files
from log.meta_properties import FILE_NAME, MetaProperties, MetaPropertiesError, new_directory_id
from quorum.config.server import ServerConfig
from quorum.controller.features import bootstrap_records
from quorum.raft.types import OffsetAndEpoch
from quorum.runtime.clock import now_ms
from quorum.snapshot_format import decode_snapshot, encode_snapshot
from wire.primitives import uuid_to_text
from wire.records.metadata import encode_metadata_record, metadata_record_version
from wire.schema import Message

BOOTSTRAP = "bootstrap.checkpoint"
_BOOTSTRAP_ID = OffsetAndEpoch(0, 0)


class FormatError(Exception):
    """A directory cannot be formatted, and why."""


def random_uuid() -> str:
    """A new id for a cluster or directory: not a reserved one, and its text does not look like an option."""
    return uuid_to_text(new_directory_id())


def format_directories(
    config: ServerConfig, cluster_id: str, *, ignore_formatted: bool = False
) -> list[Path]:
    """Formats the log directories and the metadata directory of a node; returns those that were not formatted before.

    Nothing is written if any of them cannot be formatted.

    Raises:
        FormatError: one is formatted already (unless `ignore_formatted`), or belongs to another cluster or node.
        OSError: the disk will not have it.
    """
    paths = list(dict.fromkeys([*config.log_directories, config.metadata_directory]))
    return format_paths(paths, cluster_id, config.node_id, ignore_formatted=ignore_formatted)


def format_paths(
    paths: Sequence[Path],
    cluster_id: str,
    node_id: int,
    *,
    ignore_formatted: bool = False,
    files: Files = REAL_FILES,
) -> list[Path]:
    """The same for directories by path."""
    if not cluster_id:
        raise FormatError("a cluster needs an id; `storage random-uuid` makes one")
    fresh = [path for path in paths if not _is_formatted(path, cluster_id, node_id, files)]
    if len(fresh) < len(paths) and not ignore_formatted:
        formatted = next(path for path in paths if path not in fresh)
        raise FormatError(
            f"{formatted} is already formatted; --ignore-formatted leaves it and formats the others"
        )
    for path in fresh:
        _format(path, MetaProperties(cluster_id, node_id, new_directory_id()), files)
    return fresh


def _is_formatted(path: Path, cluster_id: str, node_id: int, files: Files) -> bool:
    if not (path / FILE_NAME).exists():
        return False
    try:
        MetaProperties.load(path, files).check(path, cluster_id=cluster_id, node_id=node_id)
    except MetaPropertiesError as error:
        raise FormatError(str(error)) from error
    return True


def _format(path: Path, identity: MetaProperties, files: Files) -> None:
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / BOOTSTRAP, _encode_bootstrap(bootstrap_records()), files)
    identity.save(path, files)


def _encode_bootstrap(records: Sequence[Message]) -> bytes:
    level = next(r.feature_level for r in bootstrap_records() if hasattr(r, "feature_level"))
    values = [
        encode_metadata_record(record, metadata_record_version(type(record), level))
        for record in records
    ]
    now = now_ms()
    return b"".join(encode_snapshot(_BOOTSTRAP_ID, values, appended_at_ms=now, now_ms=now))


def read_bootstrap(path: Path, files: Files = REAL_FILES) -> list[Message]:
    """The records for an empty log: those of the directory, or 4.3's when it has none. Blocks.

    Raises:
        RemoteProtocolError: the file is damaged.
    """
    try:
        data = files.read_bytes(path / BOOTSTRAP)
    except FileNotFoundError:
        return bootstrap_records()
    return list(decode_snapshot(_BOOTSTRAP_ID, data).records)
