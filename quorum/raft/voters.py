"""Frozen voter sets, and the history of the sets in the log.

A quorum is static (kraft.version 0: the set is configuration, its members have no directory ids) or dynamic
(kraft.version 1: the set is a control record in the log or snapshot, and takes effect when it is appended, committed or
not). Source: KIP-853, Kafka's `VoterSet`, `VoterSetHistory`, `KRaftControlRecordStateMachine`; Raft dissertation,
section 4.1 (one change at a time keeps majorities overlapping).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from trimaran.quorum.raft.types import NO_DIRECTORY, Peer, ReplicaKey, VoterEndpoint, ensure
from trimaran.wire.identity import NodeId, Offset

# Levels of the feature `kraft.version`.
STATIC_QUORUM = 0
DYNAMIC_QUORUM = 1


class Voter(NamedTuple):
    """A voter: its key, its endpoints (other voters reach it at the first one), and the kraft.versions that it
    supports.
    """

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_version_min: int = STATIC_QUORUM
    kraft_version_max: int = STATIC_QUORUM

    @property
    def id(self) -> NodeId:
        return self.key.id

    @property
    def peer(self) -> Peer:
        """Returns the peer for requests; without an address if none is known."""
        return self.peer_on("")

    def peer_on(self, listener: str) -> Peer:
        """Returns the peer on that listener, without an address if the voter has no such listener."""
        if not self.endpoints:
            return Peer(self.id)
        named = (
            each_endpoint for each_endpoint in self.endpoints if each_endpoint.name == listener
        )
        endpoint = next(named, self.endpoints[0])
        return Peer(self.id, endpoint.host, endpoint.port)

    def has_same_endpoints_and_versions_as(self, other: Voter) -> bool:
        """Returns whether both are equal except for the order of endpoints."""
        return self._replace(endpoints=()) == other._replace(endpoints=()) and set(
            self.endpoints
        ) == set(other.endpoints)

    def supports(self, kraft_version: int) -> bool:
        return self.kraft_version_min <= kraft_version <= self.kraft_version_max


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters by node id; two incarnations of one node (with different directories) are never voters at the same
    time.
    """

    by_id: Mapping[NodeId, Voter] = field(default_factory=dict)

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        return cls({voter.id: voter for voter in voters})

    @classmethod
    def static(cls, peers: Iterable[Peer]) -> VoterSet:
        """Returns the set of `controller.quorum.voters`: only node ids and addresses are known."""
        return cls.of(
            Voter(ReplicaKey(peer.id), (VoterEndpoint("", peer.host, peer.port),)) for peer in peers
        )

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Voter]:
        """Iterates in the order of ids, which is the same in every process."""
        return iter(self.by_id[id_] for id_ in sorted(self.by_id))

    def __contains__(self, key: ReplicaKey) -> bool:
        """Returns whether the key is a voter's; if the set has no directory ids (a static one) only the node id is
        compared.
        """
        voter = self.by_id.get(key.id)
        return voter is not None and voter.key.directory_id in (NO_DIRECTORY, key.directory_id)

    def __str__(self) -> str:
        return "{" + ",".join(map(str, self.ids)) + "}"

    @property
    def ids(self) -> tuple[NodeId, ...]:
        return tuple(sorted(self.by_id))

    @property
    def keys(self) -> frozenset[ReplicaKey]:
        return frozenset(voter.key for voter in self.by_id.values())

    @property
    def majority(self) -> int:
        return len(self.by_id) // 2 + 1

    def get(self, node_id: NodeId) -> Voter | None:
        return self.by_id.get(node_id)

    def others(self, key: ReplicaKey) -> tuple[Voter, ...]:
        """Returns the voters other than `key`, in the order of ids."""
        return tuple(voter for voter in self if not voter.key.matches(key))

    def needs_update(self, voter: Voter) -> bool:
        """Returns whether this voter is in the set with other endpoints or versions."""
        return voter.key in self and not self.by_id[voter.id].has_same_endpoints_and_versions_as(
            voter
        )

    def is_majority(self, node_ids: Iterable[NodeId]) -> bool:
        return len(self.by_id.keys() & set(node_ids)) >= self.majority

    def supports(self, kraft_version: int) -> bool:
        """Returns whether every voter supports the version."""
        return all(voter.supports(kraft_version) for voter in self.by_id.values())

    # --- the next set; None if nothing changes

    def add(self, voter: Voter) -> VoterSet | None:
        """Returns the set with the voter; None if there is a voter with this node id, regardless of its directory."""
        if voter.id in self.by_id:
            return None
        return VoterSet({**self.by_id, voter.id: voter})

    def remove(self, key: ReplicaKey) -> VoterSet | None:
        """Returns the set without the voter; None if exactly this key is not a voter, or is the last one."""
        known = self.by_id.get(key.id)
        if known is None or known.key != key or len(self.by_id) == 1:
            return None
        return VoterSet({id_: voter for id_, voter in self.by_id.items() if id_ != key.id})

    def update(self, voter: Voter) -> VoterSet | None:
        """Returns the set with the voter's new endpoints and versions; None if its key is not a voter's."""
        if voter.key not in self:
            return None
        return VoterSet({**self.by_id, voter.id: voter})

    def overlaps(self, other: VoterSet) -> bool:
        """Returns whether at most one voter was added and at most one removed, so that any two majorities share a voter
        (R10).
        """
        return len(self.keys - other.keys) <= 1 and len(other.keys - self.keys) <= 1


V = TypeVar("V")


class _At(NamedTuple, Generic[V]):
    offset: Offset
    value: V


@dataclass(slots=True)
class LogHistory(Generic[V]):
    """Values that control records have set, in ascending order of the record's (inclusive) offset.

    The size is bounded by the number of control records after the newest snapshot, which is small, since operators
    cause them.
    """

    entries: list[_At[V]] = field(default_factory=list)

    def add(self, offset: Offset, value: V) -> None:
        ensure(
            not self.entries or offset > self.entries[-1].offset,
            "control records ascend",
            offset,
            self.entries[-1:],
        )
        self.entries.append(_At(offset, value))

    def at(self, offset: Offset) -> V | None:
        """Returns the value in effect after the record at `offset`; None if there was none up to that offset."""
        found = bisect_right(self.entries, offset, key=lambda entry: entry.offset)
        return self.entries[found - 1].value if found else None

    @property
    def last(self) -> _At[V] | None:
        return self.entries[-1] if self.entries else None

    def truncate_to(self, end_offset: Offset) -> None:
        """Forgets the values of records at or above `end_offset`, which are removed."""
        while self.entries and self.entries[-1].offset >= end_offset:
            self.entries.pop()

    def trim_to(self, start_offset: Offset) -> None:
        """Forgets values that cannot be needed: all except the last one at or below `start_offset`."""
        found = bisect_right(self.entries, start_offset, key=lambda entry: entry.offset)
        del self.entries[: max(0, found - 1)]

    def clear(self) -> None:
        self.entries.clear()


class QuorumHistory:
    """The quorum according to the log: voter sets and kraft.version, by offset.

    The writer of the log keeps this up to date: `set_voters` and `set_kraft_version` for each such control record (for
    a snapshot: at its last offset), `truncate_to`, `trim_to` and `clear` together with the log's own.

    `voters` is the newest set in the log, committed or not, which elections and watermarks use. It is `static`, the
    configured set, until a record has one. `voters_offset` is the offset of its record (None for the configured set):
    the change is committed once that is below the watermark. `kraft_version` and `is_dynamic` are also the newest
    values.
    """

    __slots__ = (
        *("_static", "_versions", "_voters"),
        *("is_dynamic", "kraft_version", "voters", "voters_offset"),
    )

    def __init__(self, static: VoterSet | None = None) -> None:
        self._voters: LogHistory[VoterSet] = LogHistory()
        self._versions: LogHistory[int] = LogHistory()
        self.configure(static or VoterSet())

    def configure(self, static: VoterSet) -> None:
        """Sets the voters that are in effect while no record has any."""
        self._static = static
        self._refresh()

    def _refresh(self) -> None:
        voters, version = self._voters.last, self._versions.last
        self.voters: VoterSet = self._static if voters is None else voters.value
        self.voters_offset: Offset | None = None if voters is None else voters.offset
        self.kraft_version: int = STATIC_QUORUM if version is None else version.value
        # The level and the set are written together: without a set only the configured one is in effect.
        self.is_dynamic: bool = self.kraft_version >= DYNAMIC_QUORUM and voters is not None

    def can_be_candidate(self, key: ReplicaKey, committed: Offset | None) -> bool:
        """Returns whether the key is a voter's, or was until a change that may still be lost (`committed`: the high
        watermark, if known).

        A leader that removes itself and then fails may be the only node with that record. The other voters would wait
        for its vote, and it must become a candidate to bring them the record, although it does not count towards a
        majority (Raft dissertation, 4.2.2). In Kafka they wait forever.
        """
        if key in self.voters:
            return True
        entries = self._voters.entries
        if len(entries) < 2 or (committed is not None and committed > entries[-1].offset):
            return False
        return key in entries[-2].value

    def voters_at(self, offset: Offset) -> VoterSet | None:
        """Returns the set in a snapshot that ends with the record at `offset`; None if the log has no set up to
        there.
        """
        return self._voters.at(offset)

    def kraft_version_at(self, offset: Offset) -> int:
        version = self._versions.at(offset)
        return STATIC_QUORUM if version is None else version

    # --- updates from the log

    def set_voters(self, offset: Offset, voters: VoterSet) -> None:
        """Notes a VotersRecord at `offset` (-1: in the snapshot of a formatted directory)."""
        self._voters.add(offset, voters)
        self._refresh()

    def set_kraft_version(self, offset: Offset, version: int) -> None:
        self._versions.add(offset, version)
        self._refresh()

    def truncate_to(self, end_offset: Offset) -> None:
        self._voters.truncate_to(end_offset)
        self._versions.truncate_to(end_offset)
        self._refresh()

    def trim_to(self, start_offset: Offset) -> None:
        self._voters.trim_to(start_offset)
        self._versions.trim_to(start_offset)

    def clear(self) -> None:
        self._voters.clear()
        self._versions.clear()
        self._refresh()
