"""Where the metadata log is read from: a directory on disk, or a running quorum, ours or Apache Kafka's.

A source gives a base (a snapshot, if the log does not begin at 0) and the batches that follow. On disk a log may end with records that
were never committed; nobody there says where the high watermark was. A running quorum gives committed records only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from log.batch import BatchView, iter_batches
from log.reader import list_segments, scan_batches
from log.recovery import base_offset_of
from log.segment import LOG_SUFFIX
from quorum.metadata.replay import MetadataState, Replay
from quorum.metadata_partition import DIRECTORY_NAME, TOPIC, TOPIC_ID
from quorum.snapshot_files import parse_snapshot_name
from trimaran.errors import Exit, UserError
from wire.blocking import BlockingClient
from wire.client.calls import RETRIED
from wire.client.destinations import Controller
from wire.errors import ErrorCode, KafkaError
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
)
from wire.schema import Message

if TYPE_CHECKING:
    from trimaran.cli.connect import Controllers

FETCH_BYTES_MAX = 1 << 20
FETCH_WAIT_MS = 500
FETCH_VERSION = 17
# What says that another epoch has begun: who leads is asked again.
EPOCH_IS_OVER = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
NEWEST = (1 << 31) - 1  # the epoch that the leader has now
# As the mirror: a snapshot of a million partitions is about 100 MB.
SNAPSHOT_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class Base:
    """A snapshot: the state of all offsets below `end_offset`."""

    end_offset: int
    epoch: int
    data: bytes


class MetadataSource(Protocol):
    """`name` is for messages."""

    name: str

    def base(self, upto: int | None) -> Base | None:
        """The snapshot to begin with for the state below `upto` (None: the newest); None if the log alone says it."""

    def batches(self, start: int) -> Iterator[BatchView]:
        """The log's batches from the one that holds `start` on."""


def replay(source: MetadataSource, at: int | None = None) -> MetadataState:
    """The state after the record at offset `at`, or the newest.

    Raises:
        UserError: the source does not reach back, or forward, to that offset. RemoteProtocolError: damage.
    """
    upto = None if at is None else at + 1
    replayed = Replay()
    base = source.base(upto)
    if base is not None:
        replayed.load_snapshot(base.end_offset, base.epoch, base.data)
    replayed.apply_all(source.batches(replayed.next_offset), upto)
    if upto is not None and replayed.next_offset < upto:
        raise UserError(
            f"{source.name} has no offset {at}",
            f"its last offset is {replayed.next_offset - 1}",
            "name an offset up to that one",
            exit_code=Exit.USAGE,
        )
    return replayed.state


# --- on disk


class Directory:
    """The metadata log of a node's directory, its `__cluster_metadata-0`, one segment or one snapshot."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.segments: list[str]
        self.snapshots: list[tuple[int, int, Path]]
        if path.is_file():
            self._of_file(path)
            return
        folder = path / DIRECTORY_NAME if (path / DIRECTORY_NAME).is_dir() else path
        self.segments = (
            [segment.path for segment in list_segments(folder)] if folder.is_dir() else []
        )
        self.snapshots = _snapshots_in(folder) if folder.is_dir() else []
        if not self.segments and not self.snapshots:
            raise UserError(
                f"no metadata log in {path}",
                f"there is no .log and no .checkpoint file in {folder}",
                "name a controller's directory, or a .log or .checkpoint file",
                exit_code=Exit.USAGE,
            )

    def _of_file(self, path: Path) -> None:
        snapshot_id = parse_snapshot_name(path.name)
        is_segment = base_offset_of(path.name, LOG_SUFFIX) is not None
        if snapshot_id is None and not is_segment:
            raise UserError(
                f"no metadata log in {path}",
                "its name is none of a segment (00000000000000000000.log) or of a snapshot (….checkpoint)",
                "name a controller's directory, or one of these files with the name that it had",
                exit_code=Exit.USAGE,
            )
        self.segments = [str(path)] if is_segment else []
        self.snapshots = [(*snapshot_id, path)] if snapshot_id else []

    def base(self, upto: int | None) -> Base | None:
        """The last snapshot that is not beyond `upto`; also the file of offset 0, with which a directory is formatted."""
        first = self._first_offset()
        usable = [one for one in self.snapshots if upto is None or one[0] <= upto]
        if usable:
            end_offset, epoch, path = usable[-1]
            if end_offset >= first:
                return Base(end_offset, epoch, path.read_bytes())
        if first > 0:
            raise UserError(
                f"{self.name} does not reach back so far",
                f"its log begins at offset {first}, and no snapshot on disk is older",
                f"name an offset from {max(first, self._oldest_snapshot())} on",
                exit_code=Exit.USAGE,
            )
        return None

    def _first_offset(self) -> int:
        return min((int(Path(path).stem) for path in self.segments), default=0)

    def _oldest_snapshot(self) -> int:
        return min((end_offset for end_offset, _, _ in self.snapshots), default=0)

    def batches(self, start: int) -> Iterator[BatchView]:
        """Ends early where a live log ends in the middle of a batch."""
        starts = [int(Path(path).stem) for path in self.segments]
        for index, path in enumerate(self.segments):
            if index + 1 < len(starts) and starts[index + 1] <= start:
                continue
            for _, batch in scan_batches(path):
                if batch.next_offset > start:
                    yield batch


def _snapshots_in(folder: Path) -> list[tuple[int, int, Path]]:
    found = [(parse_snapshot_name(path.name), path) for path in sorted(folder.iterdir())]
    return [(*snapshot_id, path) for snapshot_id, path in found if snapshot_id]


# --- live


class LiveQuorum:
    """The leader of a running quorum, read as an observer without an id."""

    def __init__(self, client: BlockingClient, name: str) -> None:
        self.name = name
        self._client = client
        self._leader_epoch: int | None = None

    def base(self, upto: int | None) -> Base | None:
        """The leader's snapshot, when it no longer has offset 0, or has a shorter way there."""
        snapshot = self._fetch(0, NEWEST).snapshot_id
        if snapshot.end_offset < 0:
            return None
        if upto is not None and snapshot.end_offset > upto:
            raise UserError(
                f"{self.name} does not reach back so far",
                f"the leader begins with a snapshot of the offsets below {snapshot.end_offset}",
                f"name an offset from {snapshot.end_offset - 1} on, or the directory of a controller that has older snapshots",
                exit_code=Exit.USAGE,
            )
        data = self._fetch_snapshot(snapshot.end_offset, snapshot.epoch)
        return Base(snapshot.end_offset, snapshot.epoch, data)

    def batches(self, start: int, *, follow: bool = False) -> Iterator[BatchView]:
        """Committed batches up to the high watermark, or for ever."""
        offset, epoch = start, NEWEST
        while True:
            partition = self._fetch(offset, epoch)
            watermark = partition.high_watermark
            if partition.snapshot_id.end_offset >= 0:
                offset, epoch = partition.snapshot_id.end_offset, partition.snapshot_id.epoch
                continue
            for batch in iter_batches(partition.records or b"", allow_partial_tail=True):
                if batch.next_offset > watermark:
                    break
                if batch.next_offset > start:
                    yield batch
                offset, epoch = batch.next_offset, batch.leader_epoch
            if offset >= watermark and not follow:
                return
            if partition.diverging_epoch.epoch >= 0:
                # A new leader in between: what was read is committed, so its epoch is the one the leader names.
                epoch = partition.diverging_epoch.epoch

    def _fetch(self, offset: int, epoch: int) -> Any:
        """`epoch` is that of the record before `offset`; NEWEST fits wherever the log goes on without a snapshot."""

        def ask(leader_epoch: int) -> FetchRequest:
            wanted = FetchPartition(
                partition=0,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=min(epoch, leader_epoch),
                partition_max_bytes=FETCH_BYTES_MAX,
            )
            return FetchRequest(
                max_wait_ms=FETCH_WAIT_MS,
                min_bytes=1,
                max_bytes=FETCH_BYTES_MAX,
                topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
            )

        answer = self._ask_leader(ask, lambda answer: answer.responses, version=FETCH_VERSION)
        return answer.responses[0].partitions[0]

    def _fetch_snapshot(self, end_offset: int, epoch: int) -> bytes:
        data = bytearray()

        def ask(leader_epoch: int) -> FetchSnapshotRequest:
            wanted = FetchSnapshotRequestPartitionSnapshot(
                partition=0,
                current_leader_epoch=leader_epoch,
                snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=end_offset, epoch=epoch),
                position=len(data),
            )
            return FetchSnapshotRequest(
                max_bytes=FETCH_BYTES_MAX,
                topics=[FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[wanted])],
            )

        while True:
            answer = self._ask_leader(ask, lambda answer: answer.topics)
            piece = answer.topics[0].partitions[0]
            if piece.size > SNAPSHOT_BYTES_MAX:
                raise KafkaError(
                    ErrorCode.RECORD_LIST_TOO_LARGE, f"a snapshot of {piece.size} bytes"
                )
            data += piece.unaligned_records or b""
            if len(data) >= piece.size:
                return bytes(data)
            if not piece.unaligned_records:
                raise KafkaError(ErrorCode.POSITION_OUT_OF_RANGE, "the snapshot came to no end")

    def _ask_leader(
        self,
        ask: Callable[[int], Message],
        topics_of: Callable[[Any], Any],
        *,
        version: int | None = None,
    ) -> Any:
        """The leader's answer; who leads is asked first, and again when the epoch turns out to be over.

        Raises:
            KafkaError: any other error in the answer.
        """
        from trimaran.cli.quorum import describe_quorum

        while True:
            was_known = self._leader_epoch is not None
            if self._leader_epoch is None:
                self._leader_epoch = describe_quorum(self._client).leader_epoch
            request = ask(self._leader_epoch)
            # A leader that was told just now may know its epoch a moment later; that it has a newer one is news.
            retried = RETRIED - (EPOCH_IS_OVER if was_known else {ErrorCode.FENCED_LEADER_EPOCH})
            answer = self._client.call(Controller(), request, version=version, retried=retried)
            code = answer.error_code or topics_of(answer)[0].partitions[0].error_code
            if code not in EPOCH_IS_OVER:
                if code:
                    raise KafkaError(ErrorCode.of(code), "while reading the metadata log")
                return answer
            self._leader_epoch = None


@contextmanager
def open_source(path: Path | None, controllers: Controllers) -> Iterator[MetadataSource]:
    """The directory if a path is given, else the quorum of `controllers`."""
    if path is not None:
        if not path.exists():
            raise UserError(
                f"{path} does not exist",
                "the first argument is a directory or a file of a metadata log",
                "to read a running quorum, give no path and -B HOST:PORT",
                exit_code=Exit.USAGE,
            )
        yield Directory(path)
        return
    with controllers.connected() as client:
        yield LiveQuorum(client, f"the quorum at {controllers.addresses}")
