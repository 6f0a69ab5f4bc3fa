"""Formatting of a node's directories, and the initial content of a formatted directory.

    meta.properties         the owner of the directory (written last: it makes a directory formatted)
    bootstrap.checkpoint    records that the first active controller of an empty log writes
    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint
                            the first voters of a dynamic quorum (kraft.version 1)

Source: Kafka's `StorageTool`, `Formatter`, `BootstrapDirectory`; the same files at the same places.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trimaran.log.directories.meta_properties import (
    FILE_NAME,
    MetaProperties,
    MetaPropertiesError,
    new_directory_id,
)
from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.formatting.permission import ensure_can_be_made
from trimaran.quorum.metadata.features import bootstrap_records, first_levels
from trimaran.quorum.metadata.versions import METADATA_VERSION, SCRAM
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft.voters import DYNAMIC_QUORUM, STATIC_QUORUM, QuorumHistory, VoterSet
from trimaran.quorum.raft_log.partition import DIRECTORY_NAME
from trimaran.quorum.raft_log.snapshot_files import SnapshotFiles, snapshot_name
from trimaran.quorum.raft_log.snapshot_format import (
    SnapshotDamaged,
    check_snapshot,
    decode_snapshot,
    encode_snapshot,
)
from trimaran.quorum.raft_log.supported_levels import refuse_unknown
from trimaran.quorum.raft_log.voter_records import note_snapshot
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.identity import LeaderEpoch, NodeId, Offset
from trimaran.wire.records.metadata import (
    UnknownRecord,
    encode_metadata_record,
    metadata_record_version,
)
from trimaran.wire.records.security import UserScramCredentialRecord
from trimaran.wire.schema import Message

BOOTSTRAP = "bootstrap.checkpoint"
_BOOTSTRAP_ID = OffsetAndEpoch(Offset(0), LeaderEpoch(0))


class FormatError(Exception):
    """A directory cannot be formatted; the message gives the reason and the remedy."""

    def __init__(self, why: str, fix: str = "trimaran storage format --help") -> None:
        super().__init__(why)
        self.fix = fix


def random_uuid() -> str:
    """Returns a new id for a cluster or directory: not a reserved one, and not one whose text looks like a command-line
    option.
    """
    return uuid_to_text(new_directory_id())


def format_directories(
    config: ServerConfig,
    cluster_id: str,
    *,
    ignore_formatted: bool = False,
    voters: VoterSet | None = None,
    features: Mapping[str, int] | None = None,
    users: Sequence[UserScramCredentialRecord] = (),
    dry_run: bool = False,
) -> list[Path]:
    """Formats the log directories and the metadata directory of a node; returns those that were not formatted before.

    No directory is written if any of them cannot be formatted. `voters` are the initial voters of a dynamic quorum. A
    new cluster starts with the levels in `features`; the other features get the levels that belong to its
    metadata.version. Older versions of Kafka only read their own metadata.version. `users` may log in from the start. A
    dry run makes all checks without writing.

    Raises:
        FormatError: a directory is formatted already (unless `ignore_formatted`) or belongs to another cluster or node;
            a level is not supported.
        OSError: the disk failed.
    """
    paths = list(dict.fromkeys([*config.log_directories, config.metadata_directory]))
    quorum = None if voters is None else FirstVoters(config.metadata_directory, voters)
    return format_paths(
        paths,
        cluster_id,
        config.node_id,
        ignore_formatted=ignore_formatted,
        quorum=quorum,
        features=features,
        users=users,
        dry_run=dry_run,
    )


class FirstVoters(NamedTuple):
    """The initial voters in the metadata directory of a dynamic quorum. A voter's own directory gets its id from this
    set.
    """

    directory: Path
    voters: VoterSet


def format_paths(
    paths: Sequence[Path],
    cluster_id: str,
    node_id: NodeId,
    *,
    ignore_formatted: bool = False,
    quorum: FirstVoters | None = None,
    features: Mapping[str, int] | None = None,
    users: Sequence[UserScramCredentialRecord] = (),
    files: Files = REAL_FILES,
    dry_run: bool = False,
) -> list[Path]:
    """Formats directories by path; see `format_directories`."""
    try:
        levels = first_levels(features or {})
    except ValueError as error:
        raise FormatError(str(error)) from error
    if users and levels[METADATA_VERSION] < SCRAM:
        raise FormatError("this metadata.version does not support SCRAM", "format for 3.5 or newer")
    if not cluster_id:
        raise FormatError(
            "the cluster id is missing", "trimaran storage random-uuid prints a new one"
        )
    fresh = [path for path in paths if not _is_formatted(path, cluster_id, node_id, files)]
    if len(fresh) < len(paths) and not ignore_formatted:
        formatted = next(path for path in paths if path not in fresh)
        raise FormatError(
            f"{formatted} is already formatted",
            "name other directories, or --ignore-formatted, which leaves it and formats the others",
        )
    if dry_run:
        for path in fresh:
            ensure_can_be_made(path)
        return fresh
    for path in fresh:
        directory_id = new_directory_id()
        if quorum is not None and path == quorum.directory:
            voter = quorum.voters.get(node_id)
            directory_id = directory_id if voter is None else voter.key.directory_id
            _write_first_voters(path, quorum.voters, files)
        _format(path, MetaProperties(cluster_id, node_id, directory_id), levels, users, files)
    return fresh


def _write_first_voters(path: Path, voters: VoterSet, files: Files) -> None:
    directory = path / DIRECTORY_NAME
    directory.mkdir(parents=True, exist_ok=True)
    now = now_ms()
    snapshot = encode_snapshot(
        _BOOTSTRAP_ID,
        [],
        appended_at_ms=now,
        now_ms=now,
        kraft_version=DYNAMIC_QUORUM,
        voters=voters,
    )
    SnapshotFiles(directory, files).write(_BOOTSTRAP_ID, snapshot)


def check_quorum_kind(
    config: ServerConfig, *, is_dynamic: bool, kraft_version: int | None = None
) -> None:
    """Checks that the kind of quorum agrees with the configuration. `is_dynamic`: the arguments name the initial
    voters, or state that another directory has them.

    Raises:
        FormatError: the arguments contradict controller.quorum.voters or kraft.version, or are missing.
    """
    if config.voters and is_dynamic:
        raise FormatError(
            "a quorum is static by controller.quorum.voters or dynamic by its first voters, not both",
            "remove the key, and set controller.quorum.bootstrap.servers instead",
        )
    if config.is_controller and not config.voters and not is_dynamic:
        raise FormatError(
            "no initial voters given, and controller.quorum.voters is not set on this controller",
            "use --standalone, --initial-controllers LIST, or --no-initial-controllers if the quorum already exists",
        )
    if kraft_version is not None and kraft_version != (
        STATIC_QUORUM if config.voters else DYNAMIC_QUORUM
    ):
        raise FormatError(
            f"kraft.version {kraft_version} does not fit the configuration",
            "it must be 0 with controller.quorum.voters, and 1 without",
        )


def _is_formatted(path: Path, cluster_id: str, node_id: NodeId, files: Files) -> bool:
    if not os.path.lexists(path / FILE_NAME):
        return False
    try:
        MetaProperties.load(path, files).check(path, cluster_id=cluster_id, node_id=node_id)
    except MetaPropertiesError as error:
        raise FormatError(
            f"already formatted for another cluster or node: {error}",
            "name other directories, or empty this one if its data can be deleted",
        ) from error
    return True


def _format(
    path: Path,
    identity: MetaProperties,
    levels: Mapping[str, int],
    users: Sequence[UserScramCredentialRecord],
    files: Files,
) -> None:
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / BOOTSTRAP, _encode_bootstrap(levels, users), files)
    identity.save(path, files)


def _encode_bootstrap(
    levels: Mapping[str, int], users: Sequence[UserScramCredentialRecord]
) -> bytes:
    metadata_version = levels[METADATA_VERSION]
    values = [
        encode_metadata_record(record, metadata_record_version(type(record), metadata_version))
        for record in (*bootstrap_records(levels), *users)
    ]
    now = now_ms()
    return b"".join(encode_snapshot(_BOOTSTRAP_ID, values, appended_at_ms=now, now_ms=now))


def read_bootstrap(path: Path, files: Files = REAL_FILES) -> list[Message]:
    """Returns the records for an empty log: those in `bootstrap.checkpoint`, those in the snapshot at offset 0, where
    Kafka 4.4 keeps them, or those of a new cluster if there are none. Blocks.

    Raises:
        SnapshotDamaged: the file is damaged or cannot be read.
        MetadataTooNew: the file has a record of a later Kafka version.
        OSError: the disk failed.
    """
    file = path / BOOTSTRAP
    try:
        data = read_small_file(file, files)
        if data is None:
            file = path / DIRECTORY_NAME / snapshot_name(_BOOTSTRAP_ID)
            data = read_small_file(file, files)
        if data is None:
            return bootstrap_records()
        found = decode_snapshot(_BOOTSTRAP_ID, data).records
    except (FileDamaged, SnapshotDamaged) as damage:
        raise SnapshotDamaged(f"{file} is damaged: {damage}") from damage
    records: list[Message] = []
    for record in found:
        if isinstance(record, UnknownRecord):
            raise refuse_unknown(record, file)
        records.append(record)
    return records or bootstrap_records()


@dataclass(frozen=True, slots=True)
class Inspection:
    """The contents of a node's directories. `voters` are the initial voters, None if the directory was formatted
    without any.
    """

    identities: dict[Path, MetaProperties]
    problems: list[str]
    kraft_version: int = STATIC_QUORUM
    voters: VoterSet | None = None


def inspect_directories(config: ServerConfig) -> Inspection:
    """Reads the directories without changing them. Blocks."""
    found: dict[Path, MetaProperties] = {}
    problems = []
    for path in dict.fromkeys([*config.log_directories, config.metadata_directory]):
        if not path.is_dir():
            problems.append(f"{path} is no directory")
            continue
        try:
            found[path] = MetaProperties.load(path)
        except MetaPropertiesError as error:
            problems.append(str(error))
    if len({properties.cluster_id for properties in found.values()}) > 1:
        problems.append("the directories belong to different clusters")
    if any(properties.node_id != config.node_id for properties in found.values()):
        problems.append(f"a directory belongs to another node than {config.node_id}")
    history = QuorumHistory()
    first = config.metadata_directory / DIRECTORY_NAME / snapshot_name(_BOOTSTRAP_ID)
    try:
        if (data := read_small_file(first, REAL_FILES)) is not None:
            check_snapshot(_BOOTSTRAP_ID, data)
            note_snapshot(history, Offset(0), data)
    except (FileDamaged, SnapshotDamaged) as damage:
        problems.append(f"{first} is damaged: {damage}")
    voters = history.voters if history.is_dynamic else None
    return Inspection(found, problems, history.kraft_version, voters)
