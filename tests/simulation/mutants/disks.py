"""Mutants of reading from a damaged disk."""

from __future__ import annotations

import json
from bisect import bisect_right
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation import node, snapshots
from tests.simulation.mutants.mutant import Mutant, both
from tests.simulation.node import SimNode
from tests.simulation.storage import Disk, Refused, SimLog, chain
from trimaran.quorum.raft.types import ElectionState
from trimaran.quorum.replica import quorum_state_file

Patch = AbstractContextManager[Any]


def _torn_batches_are_whole() -> Patch:
    """Half a batch is read as another batch."""

    def cut(self: SimLog) -> None:
        for at in range(bisect_right(self.ends, self.flushed_offset), len(self.entries)):
            entry = self.entries[at]
            if not entry.intact:
                before = self.entries[at - 1].chain if at else self.start_chain
                torn = entry._replace(payload=entry.payload ^ 1, intact=True)
                fingerprint = chain(before, torn.epoch, torn.payload)
                self._keep([*self.entries[:at], torn._replace(chain=fingerprint)])
                return

    return mock.patch.object(SimLog, "_cut_torn_tail", cut)


def _damage_is_a_torn_end() -> Patch:
    """Data above the recovery point is discarded, whatever its damage (R15)."""

    def cut(self: SimLog) -> None:
        for at, entry in enumerate(self.entries):
            if not entry.intact and entry.base >= self.recovery_point:
                self._keep(self.entries[:at])
                return

    return mock.patch.object(SimLog, "_cut_torn_tail", cut)


def _damaged_vote_file_is_none() -> Patch:
    """A node with a damaged vote file starts as if it had never voted."""
    real = Disk.load

    def load(self: Disk) -> ElectionState:
        try:
            return real(self)
        except Refused:
            return ElectionState()

    return mock.patch.object(Disk, "load", load)


def _vote_file_without_checksum() -> Patch:
    """The vote file has no checksum, as in Apache Kafka: a wrong digit is another epoch or vote."""

    def decode(data: bytes) -> ElectionState:
        return quorum_state_file._parse(json.loads(data.partition(b"\n")[0]))

    return mock.patch("tests.simulation.storage.decode_election", decode)


def _damaged_snapshot_is_taken() -> Patch:
    """The checksum of fetched data is not checked."""

    def decode(data: bytes) -> snapshots.Content:
        try:
            return real(data)
        except snapshots.Damaged:
            return snapshots.Content(1, 0, None)

    real = snapshots.decode
    return both(
        mock.patch.object(SimNode, "_check", lambda _self, message: message),
        mock.patch.object(node, "decode", decode),
    )


def _lost_snapshot_is_forgotten() -> Patch:
    """R15: a node restarts empty and votes as if it had never had anything."""
    real = SimLog._begin_anew

    def begin_anew(self: SimLog) -> None:
        real(self)
        self.refetch_end = None

    return mock.patch.object(SimLog, "_begin_anew", begin_anew)


DISKS = (
    Mutant("torn batches are whole", _torn_batches_are_whole, ("R4", "R5", "R6", "R7", "R8")),
    Mutant("damage is a torn end", _damage_is_a_torn_end, ("R5", "R6", "R7", "R8", "R15")),
    Mutant("damaged vote file is none", _damaged_vote_file_is_none, ("R3", "R2")),
    Mutant("vote file without checksum", _vote_file_without_checksum, ("R3", "R2")),
    Mutant("damaged snapshot is taken", _damaged_snapshot_is_taken, ("R4", "R8", "R9")),
    Mutant(
        "lost snapshot is forgotten",
        _lost_snapshot_is_forgotten,
        ("R5", "R6", "R7", "R8", "R15"),
    ),
)
