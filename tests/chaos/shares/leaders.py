"""The leaders of the shared partitions: as clients see them during a run, and as the metadata log records them."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.share_history import Decision, Delivery, History
from trimaran.inspect.metadata.on_disk import MetadataDirectory
from trimaran.log.batches.records import decode_records
from trimaran.log.inspection.reader import scan_batches
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.records.metadata import read_metadata_record
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord

LOOK_SECONDS = 0.3
CALL_SECONDS = 1.0
# The time within which a running broker learns that it has become a leader, or is no longer one.
LEARN_SECONDS = 5.0
# The difference between the controller's timestamp and the clock of this process.
CLOCK_SECONDS = 0.1


class Leaders:
    """The current leaders, by the newest epoch that any broker reported."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._client = BlockingClient(bootstrap, client_id="share-member-leaders")
        self._topic = topic
        self._known: dict[int, tuple[int, int]] = {}
        self.topic_id = bytes(16)

    def of(self, node: int) -> set[int]:
        """Returns the partitions that a node leads."""
        return {index for index, (_, leader) in list(self._known.items()) if leader == node}

    def watch(self, stop: threading.Event) -> None:
        """Queries the leaders repeatedly until the end of the run."""
        with self._client:
            while not stop.wait(LOOK_SECONDS):
                self.look()

    def look(self) -> None:
        """Queries a broker; without a response nothing changes."""
        topics = [MetadataRequestTopic(name=self._topic)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        with suppress(ConnectionLost, RequestTimedOut):
            answer = self._client.call(
                None, request, timeout=CALL_SECONDS, attempt_timeout=CALL_SECONDS / 2
            )
            for found in answer.topics[0].partitions:
                seen = (found.leader_epoch, found.leader_id)
                known = self._known.get(found.partition_index, (-1, -1))
                self._known[found.partition_index] = max(known, seen)
            if not answer.topics[0].error_code:
                self.topic_id = answer.topics[0].topic_id


class Reign(NamedTuple):
    """A leadership of a partition; `begin` is in seconds of `time.monotonic`."""

    begin: float
    leader: int
    epoch: int


class Reigns:
    """The leaders of each partition during a run."""

    def __init__(self, changes: Iterable[tuple[int, Reign]]) -> None:
        self._reigns: dict[Hashable, list[Reign]] = defaultdict(list)
        for partition, reign in changes:
            self._reigns[partition].append(reign)

    @classmethod
    def read(cls, directories: Iterable[Path], topic_id: bytes) -> Reigns:
        """Reads the longest of some metadata logs."""
        return cls(max((_changes(each, topic_id) for each in directories), key=len))

    def __len__(self) -> int:
        return sum(map(len, self._reigns.values()))

    def term(self, partition: Hashable, leader: int, sent: float, received: float) -> Hashable:
        """Returns the epoch of `leader` if it certainly had only this epoch between these times, otherwise None."""
        reigns = self._reigns[partition]
        at = bisect_right(reigns, sent - LEARN_SECONDS, key=_begin) - 1
        if at < 0 or reigns[at].leader != leader:
            return None
        is_last = at + 1 == len(reigns)
        if not is_last and reigns[at + 1].begin < received + CLOCK_SECONDS:
            return None
        return reigns[at].epoch

    def is_stale(self, partition: Hashable, leader: int, sent: float) -> bool:
        """Whether another broker was the leader when a request was sent to `leader`."""
        reigns = self._reigns[partition]
        at = bisect_right(reigns, sent - CLOCK_SECONDS, key=_begin) - 1
        return at < 0 or reigns[at].leader != leader

    def stamped(self, history: History) -> History:
        """Returns the history with terms instead of the nodes that responded."""

        def delivery(each: Delivery) -> Delivery:
            partition, node = each.place.partition, each.term
            assert isinstance(node, int), "each delivery has the node that answered"
            term = self.term(partition, node, each.sent, each.received)
            return each._replace(term=term, is_stale=self.is_stale(partition, node, each.sent))

        def decision(each: Decision) -> Decision:
            if not isinstance(each.term, int):
                return each
            term = self.term(each.place.partition, each.term, each.sent, each.received)
            return each._replace(term=term)

        return History(
            list(map(delivery, history.deliveries)),
            list(map(decision, history.decisions)),
            history.lost,
            history.left,
            history.letters,
        )


def _begin(reign: Reign) -> float:
    return reign.begin


def _changes(directory: Path, topic_id: bytes) -> list[tuple[int, Reign]]:
    to_monotonic = time.monotonic() - now_ms() / 1000
    changes: list[tuple[int, Reign]] = []
    epochs: dict[int, int] = {}

    def add(partition: int, timestamp_ms: int, leader: int, epoch: int) -> None:
        epochs[partition] = epoch
        changes.append((partition, Reign(timestamp_ms / 1000 + to_monotonic, leader, epoch)))

    _walk(directory, topic_id, epochs, add)
    return changes


def _walk(
    directory: Path,
    topic_id: bytes,
    epochs: dict[int, int],
    add: Callable[[int, int, int, int], None],
) -> None:
    for path in MetadataDirectory(directory).segments:
        for _, batch in scan_batches(path):
            if batch.is_control:
                continue
            for record in decode_records(batch):
                message = read_metadata_record(record.value or b"", record.offset)
                if isinstance(message, PartitionRecord) and message.topic_id == topic_id:
                    add(
                        message.partition_id,
                        record.timestamp_ms,
                        message.leader,
                        message.leader_epoch,
                    )
                elif (
                    isinstance(message, PartitionChangeRecord)
                    and message.topic_id == topic_id
                    and message.leader != -2
                ):
                    epoch = epochs[message.partition_id] + 1
                    add(message.partition_id, record.timestamp_ms, message.leader, epoch)
