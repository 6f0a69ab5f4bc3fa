"""The origin for running brokers, ours and Apache Kafka's: bounds by ListOffsets, ranges read by Fetch from leaders.

A range continues if the leader of its partition changes or its broker dies. It detects a recreated topic by the topic
id, and a truncated log by leader epochs (KIP-320). Not implemented: reading from followers, fetch sessions.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from trimaran.log.batches.batch import BatchView, has_valid_crc, iter_batches
from trimaran.log.old_formats.old_batches import opened
from trimaran.log.producers.marker import read_end_marker
from trimaran.spark.origins.damage import lose
from trimaran.spark.origins.origin import (
    NO_POSITION,
    Bounds,
    DataUnreadable,
    Located,
    Part,
    Reading,
)
from trimaran.spark.origins.packing import TASK_RANGES_MAX, pack, share_of
from trimaran.spark.origins.running_cluster.connection import ClusterSettings
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.client.destinations import LeaderNode, NodeWithId
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    NO_NODE,
    NodeId,
    Offset,
    TopicPartition,
)
from trimaran.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

EARLIEST, LATEST = -2, -1  # timestamps that ListOffsets takes for the ends of a log
READ_COMMITTED = 1
FETCH_WAIT_MS = 500
# Errors for a topic that was created again, or that a broker does not know yet.
NOT_THIS_TOPIC = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
NAMING_VERSION = 12  # versions of Fetch: the last that names topics, the first with epochs
IN_A_ROW = 1000  # partitions in one request
OFFSET_BYTES = 1000  # assumed bytes per record of a partition of unknown size


class BrokerOrigin:
    """A cluster as reported by its brokers, with one connection to each, for the driver."""

    def __init__(self, settings: ClusterSettings, *, committed: bool) -> None:
        self._settings = settings
        self._isolation = READ_COMMITTED if committed else 0
        self._topic_ids: dict[str, bytes] = {}
        self._leaders: dict[TopicPartition, NodeId] = {}
        self._bounds: dict[TopicPartition, Bounds] = {}

    def partitions(self) -> Sequence[TopicPartition]:
        with self._settings.client() as client:
            return self._refresh(client)

    def _refresh(self, client: BlockingClient) -> list[TopicPartition]:
        response = client.refresh(None)
        found = []
        for topic in response.topics:
            if topic.error_code or topic.name is None:
                continue
            self._topic_ids[topic.name] = topic.topic_id
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                self._leaders[key] = partition.leader_id
                found.append(key)
        return sorted(found)

    def bounds(self, wanted: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        with self._settings.client() as client:
            self._refresh(client)
            starts = self._offsets(client, dict.fromkeys(wanted, EARLIEST))
            ends = self._offsets(client, dict.fromkeys(wanted, LATEST))
        found = {key: Bounds(starts[key], max(starts[key], ends[key])) for key in wanted}
        self._bounds.update(found)
        return found

    def topic_ids(self) -> Mapping[str, str]:
        known = self._topic_ids.items()
        return {name: uuid_to_text(topic_id) for name, topic_id in known if any(topic_id)}

    def offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Offset | None]:
        with self._settings.client() as client:
            self._refresh(client)
            found = self._offsets(client, timestamps)
        return {key: None if offset < 0 else offset for key, offset in found.items()}

    def _offsets(
        self, client: BlockingClient, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Offset]:
        """Looks up many partitions in few requests; partitions without a result are retried one by one."""
        found: dict[TopicPartition, Offset] = {}
        by_leader: dict[NodeId, list[TopicPartition]] = defaultdict(list)
        for key in timestamps:
            by_leader[self._leaders.get(key, NO_NODE)].append(key)
        for leader, keys in by_leader.items():
            for first in range(0, len(keys) if leader >= 0 else 0, IN_A_ROW):
                some = keys[first : first + IN_A_ROW]
                request = self._request({key: timestamps[key] for key in some})
                response = client.call(NodeWithId(NodeId(leader)), request, retried=frozenset())
                found.update(_answered(response, some))
        for key in timestamps.keys() - found.keys():
            response = client.call(LeaderNode(key), self._request({key: timestamps[key]}))
            topic = single_item(response.topics, "topic")
            partition = single_item(topic.partitions, "partition")
            _ensure_of(key, TopicPartition(topic.name, partition.partition_index))
            if partition.error_code:
                raise KafkaError(
                    ErrorCode.of(partition.error_code), f"to the offsets of {key[0]}-{key[1]}"
                )
            found[key] = partition.offset
        return found

    def _request(self, timestamps: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
        for (topic, partition), timestamp in timestamps.items():
            by_topic[topic].append(
                ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            )
        return ListOffsetsRequest(
            replica_id=NO_BROKER,
            isolation_level=self._isolation,
            topics=[ListOffsetsTopic(name=name, partitions=ps) for name, ps in by_topic.items()],
        )

    def tasks(
        self,
        parts: Mapping[TopicPartition, Sequence[Part]],
        split_bytes: int | None,
        tasks_min: int,
    ) -> list[BrokerTask]:
        """Groups small partitions into tasks, by the bytes that brokers report for them. Only if there are fewer parts
        than `tasks_min`, large ones are divided, into about equal numbers of offsets, as Spark's Kafka source does.
        """
        wanted = [(key, part) for key, some in self._in_time(parts).items() for part in some]
        each = self._bytes_of_offsets({key for key, _ in wanted})
        total = sum(part.end - part.start for _, part in wanted)
        is_divided = tasks_min > len(wanted)
        ranges = []
        for key, (start, end, *_) in wanted:
            pieces = max(1, round((end - start) / total * tasks_min)) if is_divided else 1
            edges = [start + (end - start) * i // pieces for i in range(pieces + 1)]
            ranges += [
                self._range(key, a, b, round((b - a) * each[key]))
                for a, b in pairwise(edges)
                if a < b
            ]
        if is_divided:
            return [BrokerTask((one,)) for one in ranges]
        size = sum(one.size for one in ranges)
        share = share_of(size, os.cpu_count() or 1) if split_bytes is None else split_bytes
        most = max(1, min(TASK_RANGES_MAX, len(ranges) // tasks_min))
        return [BrokerTask(some) for some in pack(ranges, share, most)]

    def _in_time(
        self, parts: Mapping[TopicPartition, Sequence[Part]]
    ) -> Mapping[TopicPartition, Sequence[Part]]:
        """Returns the parts without the offsets that are too early; brokers find the first record of a time by their
        indexes.

        Negative times have other meanings for brokers.
        """
        least = {
            key: min(times)
            for key, some in parts.items()
            if (times := [-1 if part.min_ms is None else part.min_ms for part in some])
            and min(times) >= 0
        }
        firsts = self.offsets_at(least) if least else {}
        found: dict[TopicPartition, list[Part]] = {}
        for key, some in parts.items():
            first = firsts[key] if key in firsts else Offset(0)
            if first is not None:
                later = [part._replace(start=max(part.start, first)) for part in some]
                found[key] = [part for part in later if part.start < part.end]
        return found

    def _bytes_of_offsets(self, keys: Iterable[TopicPartition]) -> Mapping[TopicPartition, float]:
        """Returns the stored bytes per offset of each partition, a default if brokers do not report them."""
        wanted = set(keys)
        by_leader: dict[NodeId, list[TopicPartition]] = defaultdict(list)
        for key in sorted(wanted):
            by_leader[self._leaders.get(key, NO_NODE)].append(key)
        sizes: dict[TopicPartition, int] = {}
        with self._settings.client() as client:
            for leader, led in by_leader.items():
                if leader >= 0:
                    sizes.update(_sizes_at(client, leader, led))
        found = {}
        for key in wanted:
            offsets = self._bounds[key].end - self._bounds[key].start
            is_known = key in sizes and offsets > 0
            found[key] = sizes[key] / offsets if is_known else OFFSET_BYTES
        return found

    def _range(self, key: TopicPartition, start: Offset, end: Offset, size: int) -> BrokerRange:
        topic_id, leader = self._topic_ids.get(key[0], b""), self._leaders.get(key, NO_NODE)
        log_start = self._bounds[key].start
        return BrokerRange(self._settings, key, leader, topic_id, start, end, log_start, size)

    def summary(self, tasks: Sequence[BrokerTask]) -> str:
        ranges = [one for task in tasks for one in task.ranges]
        read = sum(one.end_offset - one.start_offset for one in ranges)
        there = sum(bounds.end - bounds.start for bounds in self._bounds.values())
        topics = len({topic for topic, _ in self._leaders})
        return (
            f"topics {len({one.key.topic for one in ranges})} of {topics}, "
            f"partitions {len({one.key for one in ranges})} of {len(self._leaders)}, "
            f"offsets {read:,} of {there:,}"
        )


def _sizes_at(
    client: BlockingClient, leader: NodeId, keys: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Returns the sizes of partitions at a broker in bytes; empty if the broker refuses, because this needs a
    permission.
    """
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in keys:
        by_topic[topic].append(partition)
    request = DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=t, partitions=ps) for t, ps in by_topic.items()]
    )
    try:
        response = client.call(NodeWithId(leader), request, retried=frozenset())
    except (KafkaError, VersionMismatch):
        return {}
    return {
        TopicPartition(topic.name, partition.partition_index): partition.partition_size
        for result in response.results
        for topic in result.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }


def _answered(response: Any, asked: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
    """Returns the offsets in the responses without an error."""
    wanted = set(asked)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in response.topics
        for partition in topic.partitions
        if not partition.error_code and (topic.name, partition.partition_index) in wanted
    }


def _ensure_of(asked: TopicPartition, told: TopicPartition) -> None:
    """Checks that the response is for this partition. Raises RemoteProtocolError."""
    if told != asked:
        topic = told.topic or "another topic"
        raise RemoteProtocolError(f"asked about {asked}, told about {topic}-{told.partition}")


@dataclass(frozen=True, slots=True)
class BrokerTask:
    """The ranges of one task, all of one cluster."""

    ranges: tuple[BrokerRange, ...]

    def __iter__(self) -> Iterator[BrokerRange]:
        """Yields the ranges with a shared client, because otherwise each of many small ranges would connect.

        Raises:
            DataUnreadable: the cluster cannot be reached.
        """
        with self.ranges[0].cluster.client(is_polling=True) as client:
            for one in self.ranges:
                yield replace(one, client=client)


@dataclass(frozen=True, slots=True)
class BrokerRange:
    """Offsets [start, end) of a partition; `node_id` was its leader when the range was planned. A range that a task
    yields has a client, and can be read.
    """

    cluster: ClusterSettings
    key: TopicPartition
    node_id: NodeId
    topic_id: bytes
    start_offset: Offset
    end_offset: Offset
    log_start: Offset
    size: int = 0  # estimated bytes, from the size that its leader reports
    client: BlockingClient | None = field(default=None, compare=False, repr=False)

    @property
    def log_dir(self) -> str | None:
        return None

    @property
    def name(self) -> str:
        return f"{self.cluster.bootstrap}/{self.key}"

    def batches(self, reading: Reading) -> Iterator[Located]:
        assert self.client is not None, "a range is read by iterating over its task"
        with self.cluster.failures_in_words():
            yield from _PartitionReader(self, self.client, reading).batches()


class _PartitionReader:
    """Fetches one range to its end."""

    def __init__(self, wanted: BrokerRange, client: BlockingClient, reading: Reading) -> None:
        self._wanted = wanted
        self._client = client
        self._reading = reading
        self._offset = wanted.start_offset
        self._epoch = NO_LEADER_EPOCH  # the leader epoch of the batch before the offset, if known
        self._log_start = Offset(0)  # the start of the log, if it has moved

    def batches(self) -> Iterator[Located]:
        if not self._is_same_topic():
            return
        patience = self._wanted.cluster.poll_timeout_seconds
        deadline = time.monotonic() + patience
        while self._offset < self._wanted.end_offset:
            before = self._offset
            partition = self._fetch()
            if partition is None:
                return
            if partition.diverging_epoch.epoch >= 0:
                raise DataUnreadable(
                    f"{self._wanted.name}: the log was cut at offset {partition.diverging_epoch.end_offset} (an "
                    f"unclean election), but {self._offset} was already read; run the query again"
                )
            yield from self._wanted_of(partition)
            if self._offset > before:
                deadline = time.monotonic() + patience
            elif time.monotonic() > deadline:
                raise DataUnreadable(
                    f"{self._wanted.name}: nothing from offset {self._offset} on for {patience:.0f} s, up to "
                    f"{self._wanted.end_offset} was promised; option kafkaConsumer.pollTimeoutMs waits longer"
                )

    def _is_same_topic(self) -> bool:
        """Returns whether the topic is that of the plan, as far as ids are known; otherwise data is lost."""
        wanted = self._wanted
        self._client.refresh([wanted.key.topic])
        now = self._client.routing.topic_id(wanted.key.topic)
        if wanted.topic_id and now and now != wanted.topic_id:
            self._lose(
                "the topic was deleted and created again since the query was planned; run it again"
            )
            return False
        return True

    def _lose(self, why: str) -> None:
        lose(f"{self._wanted.name}: {why}", fail=self._reading.fail_on_data_loss)

    def _fetch(self) -> Any:
        """Returns the partition's part of a response; None if the rest of the range is lost."""
        deadline = time.monotonic() + self._wanted.cluster.poll_timeout_seconds
        while True:
            partition = self._ask()
            code = partition.error_code
            if not code:
                return partition
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._go_on_at_start()
                if self._offset >= self._wanted.end_offset:
                    return partition
            elif code in NOT_THIS_TOPIC:
                if not self._is_same_topic():
                    return None
                if time.monotonic() > deadline:
                    self._lose(f"the topic is gone, offsets from {self._offset} on were not read")
                    return None
                time.sleep(0.1)  # a broker with older metadata will have the topic soon
            else:
                raise KafkaError(ErrorCode.of(code), f"to a read of {self._wanted.name}")

    def _ask(self) -> Any:
        wanted = self._wanted
        size = wanted.cluster.fetch_bytes
        place = FetchPartition(
            partition=wanted.key.partition,
            fetch_offset=self._offset,
            last_fetched_epoch=self._epoch,
            partition_max_bytes=size,
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=READ_COMMITTED if self._reading.committed else 0,
            topics=[
                FetchTopic(
                    topic=wanted.key.topic,
                    topic_id=wanted.topic_id or bytes(16),
                    partitions=[place],
                )
            ],
        )
        # Before 2.8 there are no topic ids, so topics are named.
        version = None if any(wanted.topic_id) else NAMING_VERSION
        leader = LeaderNode(wanted.key)
        response = self._client.call(leader, request, version=version)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), f"to a read of {wanted.name}")
        topic = single_item(response.responses, "topic")
        partition = single_item(topic.partitions, "partition")
        is_same = any(topic.topic_id) and topic.topic_id == wanted.topic_id
        name = wanted.key.topic if is_same else topic.topic
        _ensure_of(wanted.key, TopicPartition(name, partition.partition_index))
        return partition

    def _go_on_at_start(self) -> None:
        """Continues at the start of the log if retention has deleted the offset: the deleted records are lost for this
        read.
        """
        wanted = self._wanted
        key = wanted.key
        origin = BrokerOrigin(wanted.cluster, committed=False)
        bounds = origin.bounds([key])[key]
        if bounds.start <= self._offset:
            raise DataUnreadable(
                f"{wanted.name}: offset {self._offset} is gone, the log ends at {bounds.end} now (an unclean "
                "election); run the query again"
            )
        self._lose(
            f"offsets {self._offset} to {min(bounds.start, wanted.end_offset) - 1} were deleted (retention or "
            "DeleteRecords) before they were read"
        )
        self._offset, self._epoch, self._log_start = bounds.start, NO_LEADER_EPOCH, bounds.start

    def _wanted_of(self, partition: Any) -> Iterator[Located]:
        aborted = _Aborted(partition.aborted_transactions or ())
        # Copied: a reader may keep batches beyond the next response.
        records = bytes(partition.records or b"")
        for found in iter_batches(records, allow_partial_tail=True, allow_old=True):
            if found.next_offset <= self._offset:
                continue  # the batch at which the last fetch ended
            batch = self._checked(found)
            if batch.base_offset >= self._wanted.end_offset:
                self._offset = self._wanted.end_offset
                return
            self._offset, self._epoch = batch.next_offset, batch.leader_epoch
            is_aborted = self._reading.committed and aborted.has(batch)
            if self._reading.include_control if batch.is_control else not is_aborted:
                yield Located(NO_POSITION, batch, self._log_start)

    def _checked(self, batch: BatchView) -> BatchView:
        if self._reading.verify_crc and not has_valid_crc(batch):
            raise RemoteProtocolError(f"{batch!r} of {self._wanted.name} has a wrong CRC")
        return opened(batch)


class _Aborted:
    """Finds the batches of aborted transactions in one Fetch response, as consumers do (KIP-98)."""

    def __init__(self, listed: Iterable[Any]) -> None:
        self._coming = sorted(listed, key=lambda one: one.first_offset, reverse=True)
        self._open: set[int] = set()

    def has(self, batch: BatchView) -> bool:
        """Returns whether a batch was aborted. Must be called for every batch, in order."""
        while self._coming and self._coming[-1].first_offset <= batch.last_offset:
            self._open.add(self._coming.pop().producer_id)
        if batch.is_control:
            marker = read_end_marker(batch)
            if marker is not None and not marker.is_commit:
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open
