"""`voter_history`: the changes of the voters of the metadata quorum (KIP-853).

The leader change record at the beginning of an epoch names the voters of a static quorum; a dynamic one has voters
records.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    INTS,
    LONG,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    field,
)
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, WalkStep
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_to_text
from trimaran.wire.identity import Address, NodeId
from trimaran.wire.messages.control import LeaderChangeMessage, VotersRecord

# fmt: off
COLUMNS = (
    Column("offset", LONG, field("moment.offset"), "the record", "VotersRecord, LeaderChangeMessage"),
    Column("ts", TIMESTAMP, field("moment.timestamp_ms"), "when the leader wrote it", unit="UTC"),
    Column("epoch", INT, field("moment.epoch"), "the quorum's epoch"),
    Column("event", STRING, field("event"), "initial, added, removed, changed (directory or endpoints)"),
    Column("voter_id", INT, field("voter_id"), "the voter", "VotersRecord.voters.voterId"),
    Column("directory_id", STRING, field("directory_id"), "its directory; null: a static quorum's",
           "…voterDirectoryId"),
    Column("endpoints", STRINGS, field("voter.endpoints"), "NAME://host:port", "…endpoints"),
    Column("voters", INTS, field("voters"), "all voters after the record"),
    Column("dynamic", BOOL, field("is_dynamic"), "the log keeps the set (KIP-853)"),
)
# fmt: on


class VoterState(NamedTuple):
    directory_id: bytes
    endpoints: tuple[str, ...]


class VoterChange(NamedTuple):
    """A row: a voter that was added, changed or removed, and all `voters` after the record."""

    moment: Moment
    event: str
    voter_id: NodeId
    voter: VoterState
    voters: list[NodeId]
    is_dynamic: bool

    @property
    def directory_id(self) -> str | None:
        directory_id = self.voter.directory_id
        return None if directory_id == NIL_UUID else uuid_to_text(directory_id)


class VoterHistoryFold(EventFold):
    CONTROL: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._voters: dict[NodeId, VoterState] | None = None
        self._dynamic = False

    def take(self, step: WalkStep) -> None:
        match step.message:
            case VotersRecord() as record:
                self._dynamic = True
                self._change(
                    step,
                    {
                        NodeId(v.voter_id): VoterState(
                            v.voter_directory_id,
                            tuple(f"{e.name}://{Address(e.host, e.port)}" for e in v.endpoints),
                        )
                        for v in record.voters
                    },
                )
            case LeaderChangeMessage() as message if not self._dynamic:
                told: dict[NodeId, VoterState] = {
                    NodeId(v.voter_id): VoterState(v.voter_directory_id, ()) for v in message.voters
                }
                self._change(step, told)
            case _:
                pass

    def _change(self, step: WalkStep, voters: dict[NodeId, VoterState]) -> None:
        old, self._voters = self._voters, voters
        if step.from_snapshot and not self.shows_snapshot:
            return
        for voter_id in sorted(voters.keys() | (old or {}).keys()):
            before, after = (old or {}).get(voter_id), voters.get(voter_id)
            if old is None:
                event = "initial"
            elif before is None:
                event = "added"
            elif after is None:
                event = "removed"
            elif before != after:
                event = "changed"
            else:
                continue
            voter = after or before or VoterState(NIL_UUID, ())
            row = VoterChange(step.moment, event, voter_id, voter, sorted(voters), self._dynamic)
            self.rows.append(row)


TABLE = folded(
    "voter_history",
    "The voters of the metadata quorum, from each change on.",
    COLUMNS,
    VoterHistoryFold,
    plan="whole",
)
