"""The bytes of a simulated snapshot: checksum, fingerprint of the state, and the voters, as in real ones. snapshot =
CRC-32 of the rest, 8 hexadecimal digits, "|", state, "|", kraft.version, "|", { id " " host "," }, "|", padding
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from trimaran.quorum.raft.types import ReplicaKey, VoterEndpoint
from trimaran.quorum.raft.voters import Voter, VoterSet

# Size of a snapshot: three pieces of a fetch (`snapshot_max_bytes` of the simulation).
SIZE_MIN = 72


class Damaged(Exception):
    """Raised if the checksum is wrong."""


class Content(NamedTuple):
    state: int
    kraft_version: int
    voters: VoterSet | None


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id]) * 16)


def voter_of(node_id: int, host: str = "sim") -> Voter:
    return Voter(key_of(node_id), (VoterEndpoint("C", host, node_id),), 0, 1)


def encode(content: Content) -> bytes:
    listed = ",".join(
        f"{voter.id} {voter.endpoints[0].host}" for voter in content.voters or () if voter.endpoints
    )
    body = f"|{content.state}|{content.kraft_version}|{listed}|".encode().ljust(SIZE_MIN - 8, b".")
    return b"%08x" % zlib.crc32(body) + body


def decode(data: bytes) -> Content:
    """Returns the content; raises Damaged."""
    if b"%08x" % zlib.crc32(data[8:]) != data[:8]:
        raise Damaged
    _, state, version, listed, *_ = data.split(b"|")
    words = [word.split() for word in listed.decode().split(",") if word]
    voters = VoterSet.of(voter_of(int(i), host) for i, host in words)
    return Content(int(state), int(version), voters if words else None)
