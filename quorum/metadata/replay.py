"""The state after a sequence of batches of the metadata log, for tools and reports that read a log from outside.

    replay = Replay()
    replay.load_snapshot(snapshot_id, data)     # if the log does not begin at 0
    for batch in batches: replay.apply(batch, until)
    replay.state                                # at the last offset applied

Control records of the quorum are included. Transactions of records become visible only at their end (KIP-868). Records
of a later Kafka version are counted and skipped. Sans-I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimaran.log.batches.batch import BatchView, check_batch, iter_batches
from trimaran.log.batches.records import Record, decode_records
from trimaran.quorum.metadata.image import EMPTY, MetadataImage
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.listener import CommittedBatch, LoadedSnapshot
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import NO_NODE, NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, NodeId, Offset
from trimaran.wire.messages.control import (
    ControlType,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control_key,
    decode_control_value,
)
from trimaran.wire.records.metadata import UnknownRecord, read_metadata_record
from trimaran.wire.schema import Message


@dataclass(frozen=True, slots=True)
class LoggedVoter:
    """One voter as recorded in the log; the voters of a static quorum have neither directory nor endpoints there."""

    id: NodeId
    directory_id: bytes = NIL_UUID
    endpoints: tuple[tuple[str, str, int], ...] = ()
    kraft_versions: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class MetadataState:
    """The state of the metadata log. `leader_id` is the leader of the last epoch, -1 if none is known;
    `unknown_control` counts control records of a later Kafka version, and `image.unknown` all other unknown records.
    """

    image: MetadataImage = EMPTY
    voters: tuple[LoggedVoter, ...] = ()
    kraft_version: int = 0
    leader_id: NodeId = NO_NODE
    unknown_control: int = 0

    @property
    def unknown(self) -> str:
        """Returns the skipped records, which only a later Kafka version understands, as readable text; empty if there
        are none.
        """
        control = self.unknown_control
        texts = [self.image.unknown.text] if self.image.unknown.count else []
        texts += [f"{control} control record{'' if control == 1 else 's'}"] if control else []
        return " and ".join(texts)


class Replay:
    """Replays one log from its beginning or from a snapshot."""

    def __init__(self) -> None:
        self._loader = MetadataLoader()
        self._voters: tuple[LoggedVoter, ...] = ()
        self._kraft_version = 0
        self._leader_id = NO_NODE
        self._unknown_control = 0
        self._next_offset = Offset(0)

    @property
    def state(self) -> MetadataState:
        """Returns the state at the last applied offset, without the changes of an open transaction."""
        image = self._loader.image
        return MetadataState(
            image, self._voters, self._kraft_version, self._leader_id, self._unknown_control
        )

    @property
    def next_offset(self) -> Offset:
        """Returns the first offset that has not been applied."""
        return self._next_offset

    def branch(self) -> Replay | None:
        """Returns an independent copy at this point, which shares unchanged data; None while a transaction is open."""
        if self._loader.in_transaction:
            return None
        other = Replay()
        other.__dict__.update(self.__dict__, _loader=MetadataLoader(image=self._loader.image))
        return other

    def load_snapshot(
        self, end_offset: Offset, epoch: LeaderEpoch, data: bytes | memoryview
    ) -> None:
        """Starts from a snapshot: the state of all offsets below `end_offset`.

        Raises:
            RemoteProtocolError: the bytes are not a complete snapshot.
        """
        appended_at_ms, complete = NO_TIMESTAMP, False
        records: list[Message | UnknownRecord] = []
        for batch in iter_batches(memoryview(data)):
            check_batch(batch)
            for record in decode_records(batch):
                if not batch.is_control:
                    records.append(read_metadata_record(record.value or b"", record.offset))
                    continue
                value = self._control(record)
                if isinstance(value, SnapshotHeaderRecord):
                    appended_at_ms = value.last_contained_log_timestamp
                complete = complete or isinstance(value, SnapshotFooterRecord)
        if not complete:
            raise RemoteProtocolError(f"a snapshot of {len(data)} bytes has no footer")
        self._loader.load_snapshot(
            LoadedSnapshot(Offset(end_offset), LeaderEpoch(epoch), appended_at_ms, records)
        )
        self._next_offset = end_offset

    def apply(self, batch: BatchView, until: Offset | None = None) -> None:
        """Applies a batch; if it extends beyond the offset `until`, applies only the records before that offset.

        Raises:
            RemoteProtocolError: the batch is malformed or does not follow the previous one.
        """
        records: list[Message | UnknownRecord] = []
        last_offset = NO_OFFSET
        for record in decode_records(batch):
            if record.offset < self._next_offset or (until is not None and record.offset >= until):
                continue
            last_offset = record.offset
            if batch.is_control:
                self._control(record)
            else:
                records.append(read_metadata_record(record.value or b"", record.offset))
        if last_offset == NO_OFFSET:
            return
        self._loader.apply_committed(
            CommittedBatch(
                batch.base_offset,
                last_offset,
                batch.leader_epoch,
                batch.max_timestamp,
                batch.size,
                records,
            )
        )
        self._next_offset = last_offset + 1

    def apply_all(self, batches: Iterable[BatchView], until: Offset | None = None) -> None:
        """Applies batches until one starts at or beyond `until`."""
        for batch in batches:
            if until is not None and batch.base_offset >= until:
                return
            self.apply(batch, until)

    def _control(self, record: Record) -> Message | None:
        kind = decode_control_key(record.key or b"")
        if kind is ControlType.UNKNOWN:
            self._unknown_control += 1
            return None
        value = decode_control_value(kind, record.value or b"")
        match value:
            case LeaderChangeMessage():
                self._leader_id = NodeId(value.leader_id)
                if not self._kraft_version:
                    self._voters = tuple(
                        LoggedVoter(voter.voter_id, voter.voter_directory_id)
                        for voter in value.voters
                    )
            case KRaftVersionRecord():
                self._kraft_version = value.kraft_version
            case VotersRecord():
                self._voters = tuple(_voter(value))
            case _:
                pass
        return value


def _voter(record: VotersRecord) -> Iterable[LoggedVoter]:
    for voter in record.voters:
        feature = voter.kraft_version_feature
        yield LoggedVoter(
            voter.voter_id,
            voter.voter_directory_id,
            tuple((endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints),
            (feature.min_supported_version, feature.max_supported_version),
        )
