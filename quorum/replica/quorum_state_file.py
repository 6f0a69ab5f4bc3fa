"""`quorum-state`: the vote file. Its loss would allow a second vote in an epoch, so it is replaced atomically and
fsynced.

    file = JSON, newline, [ "crc32c ", 8 hexadecimal digits: of the JSON, newline ]

The JSON is what Kafka's `FileQuorumStateStore` writes, data version 0 for kraft.version 0, 1 for kraft.version 1 (with
the voted directory id, without the voters, which are in the log). Kafka only reads and writes the first line: a flipped
bit can change the epoch or vote in its file, but not in ours. A damaged file is refused, never interpreted (mD3, R15).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import crc32c

from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.quorum.raft.types import EPOCH_MAX, NO_DIRECTORY, ElectionState, ReplicaKey
from trimaran.quorum.raft.voters import QuorumHistory
from trimaran.wire.buffers.primitives import uuid_from_text, uuid_to_text
from trimaran.wire.identity import NO_NODE, LeaderEpoch, NodeId

FILE_NAME = "quorum-state"
_CHECKSUM = re.compile(rb"crc32c ([0-9a-f]{8})\n")


class QuorumStateError(Exception):
    """The vote file cannot be trusted; the node must not vote until an operator has inspected it."""


def load_election(directory: Path, files: Files = REAL_FILES) -> ElectionState:
    """Returns the election of the file; `ElectionState()` if there is none.

    Raises:
        QuorumStateError: the file is not one that Kafka or trimaran writes, or cannot be read.
        OSError: the disk failed.
    """
    path = directory / FILE_NAME
    try:
        data = read_small_file(path, files)
    except FileDamaged as damage:
        raise QuorumStateError(
            f"{damage}; restore it or reformat the node, as it may vote twice in an epoch without it"
        ) from damage
    if data is None:
        return ElectionState()
    try:
        return decode_election(data)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise QuorumStateError(
            f"{path} is damaged ({error!r}); restore it or reformat the node"
        ) from error


def decode_election(data: bytes) -> ElectionState:
    """Returns the election in the bytes of a vote file. Raises ValueError, KeyError, TypeError for other bytes."""
    line, _, rest = data.partition(b"\n")
    if rest:
        checksum = _CHECKSUM.fullmatch(rest)
        if checksum is None or int(checksum[1], 16) != crc32c.crc32c(line):
            raise ValueError("the checksum does not match")
    return _parse(json.loads(line))


def _parse(data: dict[str, Any]) -> ElectionState:
    version = data["data_version"]
    if version not in (0, 1):
        raise ValueError(f"data_version {version}")
    epoch, leader, voted = (_integer(data[name]) for name in ("leaderEpoch", "leaderId", "votedId"))
    if not 0 <= epoch <= EPOCH_MAX or leader < NO_NODE or voted < NO_NODE:
        raise ValueError(f"epoch {epoch}, leader {leader}, voted {voted}")
    directory = uuid_from_text(data["votedDirectoryId"]) if version == 1 else NO_DIRECTORY
    return ElectionState(
        LeaderEpoch(epoch),
        NodeId(leader),
        ReplicaKey(NodeId(voted), directory) if voted >= 0 else None,
    )


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no integer")
    return value


def save_election(
    directory: Path, election: ElectionState, history: QuorumHistory, files: Files = REAL_FILES
) -> None:
    """Replaces the file, in the format of the quorum's kraft.version. Blocks for an fsync; raises OSError."""
    write_atomically(directory / FILE_NAME, encode_election(election, history), files)


def encode_election(election: ElectionState, history: QuorumHistory) -> bytes:
    make = _version_1 if history.is_dynamic else partial(_version_0, voters=history.voters.ids)
    line = json.dumps(make(election), separators=(",", ":")).encode()
    return line + b"\ncrc32c %08x\n" % crc32c.crc32c(line)


def _version_0(election: ElectionState, voters: Iterable[NodeId]) -> dict[str, Any]:
    return {
        "clusterId": "",
        "leaderId": election.leader_id,
        "leaderEpoch": election.epoch,
        "votedId": election.voted.id if election.voted else NO_NODE,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": 0,
    }


def _version_1(election: ElectionState) -> dict[str, Any]:
    voted = election.voted or ReplicaKey(NO_NODE)
    return {
        "leaderId": election.leader_id,
        "leaderEpoch": election.epoch,
        "votedId": voted.id,
        "votedDirectoryId": uuid_to_text(voted.directory_id),
        "data_version": 1,
    }
