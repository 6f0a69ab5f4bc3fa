"""Replicates from one leader: one task, one connection, one incremental fetch session for all partitions that it leads.

Source: `AbstractFetcherThread`, `ReplicaFetcherThread`, `RemoteLeaderEndPoint` of Kafka.

A round: send changed positions; append the received records; wait until they are durable; repeat. Changes need not wait
for a pending fetch: newly followed partitions go in a second request. Our leaders then release the first request
immediately; Kafka's leaders answer one request after the other. Responses are processed in order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf

import trio

from trimaran.broker import events
from trimaran.broker.channels.broker_connector import BrokerUnknown, Connector
from trimaran.broker.fetching.sessions import NO_SESSION
from trimaran.broker.partitions.follower import FetchPosition, PartitionFollower, in_runs
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.replica import Replica
from trimaran.broker.replication.fetch_client import (
    BACKOFF_SECONDS,
    FetchClient,
    FetchSettings,
    PartitionFetchState,
)
from trimaran.node.runtime.pacing import Paced, run_paced
from trimaran.wire.buffers.outgoing import records_view
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import BrokerId, LeaderEpoch, Offset, TopicIdPartition, TopicPartition
from trimaran.wire.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse, PartitionData
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from trimaran.wire.transport.client.node_connection import NodeConnection
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop

log = logging.getLogger(__name__)

# The maximum number of requests in flight: the long poll, and a request for changes in the meantime.
IN_FLIGHT_MAX = 2
# New partitions are empty. While a fetch is pending, they are sent to the leader at most this often, all together: if a
# client creates topics one after another, each request covers several, and the first write to one of them waits at most
# this long (in Kafka, until the end of the long poll).
NEW_PARTITION_BATCH_SECONDS = 0.1

# The number of batches of a response that are appended in one step: 5 ms of work.
BATCHES_AT_ONCE = 1_000

LATEST = -1
EARLIEST_LOCAL = -4

# Errors that are logged without a warning, because a new leader and its epoch reach brokers at different times.
_PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

_FAILURES = (ConnectionLost, RequestTimedOut, VersionMismatch, RemoteProtocolError)


class _LeaderError(KafkaError):
    """An error of the leader, as opposed to an error of our disk."""


class Fetcher:
    """The partitions that this broker follows from `leader_id`; `run` replicates them until cancelled."""

    def __init__(
        self,
        leader_id: BrokerId,
        connector: Connector,
        settings: FetchSettings,
    ) -> None:
        self.leader_id = leader_id
        self._connector = connector
        self._client = FetchClient(settings)
        self._new: dict[TopicIdPartition, Partition] = {}
        # The partition whose log is being checked; None if it was removed meanwhile.
        self._checking: Partition | None = None
        self._start_new_at = -inf
        self._flushing: dict[TopicIdPartition, None] = {}
        self._in_flight = 0
        self._last_answered = trio.Event()
        self._failure: Exception | None = None
        self._last_error = ""
        self._news = AutoResetEvent()

    def __len__(self) -> int:
        return len(self._new) + len(self._client) + (self._checking is not None)

    def add(self, partition: Partition) -> None:
        """Replicates `partition` in its current epoch."""
        if partition.state.leader_epoch > 0:
            self._start_new_at = -inf  # an elected leader may have records
        if not self._new or self._start_new_at == -inf:
            self._news.set()
        self._new[_key(partition)] = partition

    def remove(self, partition: Partition) -> None:
        """Stops replicating `partition`, because its epoch is over."""
        key = _key(partition)
        self._new.pop(key, None)
        if self._checking is partition:
            self._checking = None
        self._client.remove(key)
        self._flushing.pop(key, None)
        self._news.set()

    async def run(self) -> None:
        """Connects and replicates, and reconnects after failures, until cancelled."""
        longest = self._client.backoff_seconds_max
        backoff = ExponentialBackoff(BACKOFF_SECONDS, longest)
        while True:
            began = trio.current_time()
            try:
                async with self._connector.connect(
                    self.leader_id, copy_records=False
                ) as connection:
                    await self._replicate(connection)
            except BrokerUnknown:
                pass  # not registered yet, or no longer: newer metadata will follow
            except _FAILURES as error:
                self._log_once(str(error))
            if trio.current_time() - began > longest:
                backoff.succeeded()
            await trio.sleep(backoff.failed())

    def _log_once(self, why: str) -> None:
        """Logs a reason once, even if it repeats."""
        if why != self._last_error:
            events.REPLICA_FETCHER_STOPPED.log(log, leader=self.leader_id, reason=why)
        self._last_error = why

    def _begin(self) -> None:
        self._client.begin()
        self._failure = None
        self._in_flight = 0
        self._last_answered = trio.Event()
        self._last_answered.set()

    async def _replicate(self, connection: NodeConnection) -> None:
        self._begin()
        async with trio.open_nursery() as nursery:
            while (failure := self._failure) is None:
                if self._new and (not self._in_flight or trio.current_time() >= self._start_new_at):
                    await self._start_new()
                request = self._next_request()
                if request is None:
                    await self._news.wait(self._next_work_at)
                else:
                    before, self._last_answered = self._last_answered, trio.Event()
                    self._in_flight += 1
                    number, answered = self._client.requests, self._last_answered
                    nursery.start_soon(
                        self._exchange, connection, number, request, before, answered
                    )
            nursery.cancel_scope.cancel()
        raise failure

    @property
    def _may_ask(self) -> bool:
        """Whether a request may be sent now; otherwise the end of a flush or a response triggers the next check."""
        if self._flushing or self._in_flight >= IN_FLIGHT_MAX:
            return False
        # The next request must have the session id, which only the response to the first one provides.
        return not self._in_flight or self._client.session_id != NO_SESSION

    @property
    def _next_work_at(self) -> float:
        """The time at which there is work to do without a notification."""
        due = self._client.next_due if self._may_ask else inf
        return min(due, self._start_new_at) if self._new else due

    def _next_request(self) -> FetchRequest | None:
        if not self._may_ask:
            return None
        return self._client.next_request(trio.current_time(), in_flight=self._in_flight > 0)

    async def _start_new(self) -> None:
        """Begins the follower epochs of added partitions, which opens their logs."""
        if self._in_flight:
            self._start_new_at = trio.current_time() + NEW_PARTITION_BATCH_SECONDS
        async for key, partition in Paced(self._take_new()):
            try:
                if partition.must_check and not await self._check(partition):
                    continue
                follower = partition.open_follower()
            except KafkaError as error:
                events.REPLICA_UNUSABLE.log(log, partition=partition.name, error=error)
                continue
            if follower is None or follower.leader_id != self.leader_id:
                continue
            self._client.add(key, follower)
            follower.on_ready = self._on_flushed
            if not follower.ready:
                self._flushing[key] = None

    def _take_new(self) -> Iterator[tuple[TopicIdPartition, Partition]]:
        while self._new:
            yield self._new.popitem()

    async def _check(self, partition: Partition) -> bool:
        """Checks the log of `partition`; returns whether it is still followed afterwards (False if it was removed and
        added again in the meantime: it is then a new partition). Raises KafkaError as `Replica.check` does.
        """
        self._checking = partition
        try:
            await partition.check()
            return self._checking is partition
        finally:
            self._checking = None

    def _on_flushed(self, follower: PartitionFollower) -> None:
        self._flushing.pop(_key(follower.replica), None)
        if not self._flushing:
            self._news.set()

    async def _exchange(
        self,
        connection: NodeConnection,
        number: int,
        request: FetchRequest,
        before: trio.Event,
        answered: trio.Event,
    ) -> None:
        """Sends the request with that `number` and processes its response, after the previous response."""
        try:
            response = await connection.call(
                request, timeout=request.max_wait_ms / 1000 + self._client.settings.response_seconds
            )
            if not before.is_set():
                await before.wait()
            await self._process(connection, response, number)
        except _FAILURES as error:
            self._failure = self._failure or error
        self._in_flight -= 1
        answered.set()
        if not self._flushing or self._new or self._failure is not None:
            self._news.set()  # otherwise the end of the flush triggers it

    # -- responses

    async def _process(
        self, connection: NodeConnection, response: FetchResponse, number: int
    ) -> None:
        """Processes the response to the request with that `number`."""
        if response.error_code:
            raise ConnectionLost(
                f"the leader ends the session: {ErrorCode.of(response.error_code).name}"
            )
        self._client.answered(response.session_id)
        self._last_error = ""
        await self._prepare_cuts(response, number)
        lost: dict[TopicIdPartition, PartitionFetchState] = {}
        async for key, data in Paced(_partitions_of(response)):
            followed = self._client.find_asked(key, number)
            if followed is not None and await self._take(followed, data):
                lost[followed.key] = followed
            if followed is None or followed.follower.ended:
                self._client.dropped(key)
        for followed in lost.values():
            # The epoch ended while offsets of another partition were requested.
            if not followed.follower.ended:
                await self._find_position(connection, followed)

    async def _prepare_cuts(self, response: FetchResponse, number: int) -> None:
        """Lowers the recovery points of all partitions to be truncated in one step: if this were done for each
        partition, each would write the checkpoints.
        """
        cut = []
        for key, data in _partitions_of(response):
            diverging = data.diverging_epoch
            if diverging.end_offset < 0 or data.error_code:
                continue
            followed = self._client.find_asked(key, number)
            if followed is not None and followed.follower.replica.open_log is not None:
                at = followed.follower.diverging_at(*_place_in(diverging))
                cut.append((followed.follower, at))
        if cut:
            await _prepare_cuts(cut)

    async def _drop_deleted(self, follower: PartitionFollower, log_start: Offset) -> None:
        if follower.drops_files(log_start):
            await _prepare_cuts([(follower, Offset(0))])
        if not follower.ended:
            await run_paced(follower.drop_deleted(log_start))

    async def _take(self, followed: PartitionFetchState, data: PartitionData) -> bool:
        """Applies one partition of a response. Returns True if our position is outside of the leader's log."""
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return True
        if data.error_code:
            self._on_leader_error(followed, ErrorCode.of(data.error_code))
            return False
        follower = followed.follower
        try:
            if data.diverging_epoch.end_offset >= 0:
                diverging, before = data.diverging_epoch, follower.reached
                at = follower.diverging_at(*_place_in(diverging))
                await run_paced(follower.cut_segments_above(at))
                if follower.ended:
                    return False
                follower.truncate_diverging(*_place_in(diverging))
                self._check_moved(followed, before)
            else:
                log_start = data.log_start_offset
                if follower.lies_below(log_start):
                    await self._drop_deleted(follower, log_start)
                records = records_view(data.records)
                if len(records) and not follower.ended:
                    self._client.received(followed, len(records), trio.current_time())
                    await self._take_records(followed, records)
                if follower.ended:
                    return False
                follower.take_watermark(data.high_watermark, log_start)
                followed.lags = follower.reached.offset < data.high_watermark
        except (KafkaError, RemoteProtocolError) as error:
            self._delay(followed, str(error))
        self._after_change(followed)
        return False

    async def _take_records(self, followed: PartitionFetchState, records: memoryview) -> None:
        """Appends the records in pieces, until the epoch ends.

        Raises KafkaError, RemoteProtocolError as `PartitionFollower.append` does.
        """
        follower, is_news = followed.follower, False
        if follower.replica.must_check:  # the log was truncated, and no records were appended since
            await follower.replica.check()
        for number, some in enumerate(in_runs(records, BATCHES_AT_ONCE)):
            if number:
                self._after_change(followed)
                await yield_to_loop()
            if follower.ended:
                return
            is_news = follower.append(some) or is_news
        if is_news:
            followed.succeeded()
            return
        followed.repeats += 1
        if (
            followed.repeats >= IN_FLIGHT_MAX
        ):  # a single repeat may be from a request sent before the append
            raise RemoteProtocolError("the leader sends the same records again and again")

    def _after_change(self, followed: PartitionFetchState) -> None:
        if not followed.follower.ended:
            self._client.mark_changed(followed)
            if not followed.follower.ready:
                self._flushing[followed.key] = None

    def _on_leader_error(self, followed: PartitionFetchState, code: ErrorCode) -> None:
        if code in _PASSING:
            self._client.delay(followed, trio.current_time())
        else:
            self._delay(followed, f"the leader answers {code.name}")

    def _delay(self, followed: PartitionFetchState, why: str) -> None:
        """Logs a new error, and delays the partition for a time that grows with each error."""
        if why != followed.last_error:
            events.REPLICATION_FAILED.log(
                log,
                partition=followed.follower.replica.name,
                leader=self.leader_id,
                epoch=followed.follower.epoch,
                offset=followed.follower.reached.offset,
                error=why,
            )
        followed.last_error = why
        self._client.delay(followed, trio.current_time())

    async def _find_position(
        self, connection: NodeConnection, followed: PartitionFetchState
    ) -> None:
        """Moves to the end or the start of the leader's log, because our position is outside of it."""
        follower, before = followed.follower, followed.follower.reached
        try:
            leader_end = await self._leader_offset(connection, follower, LATEST)
            if leader_end < follower.log.log_end_offset:
                events.REPLICA_TRUNCATED.log(
                    log,
                    partition=follower.replica.name,
                    from_offset=follower.log.log_end_offset,
                    to_offset=leader_end,
                )
                await _prepare_cuts([(follower, leader_end)])
                await run_paced(follower.cut_segments_above(leader_end))
                if not follower.ended:
                    follower.truncate_to(leader_end)
            else:
                leader_start = await self._leader_offset(connection, follower, EARLIEST_LOCAL)
                if not follower.ended and leader_start > follower.log.log_end_offset:
                    await _prepare_cuts([(follower, Offset(0))])
                    await run_paced(follower.cut_segments_above(Offset(0)))
                    if not follower.ended:
                        follower.start_at(leader_start)
            if not follower.ended:
                self._check_moved(followed, before)
        except _LeaderError as refusal:
            self._on_leader_error(followed, refusal.code)
        except (KafkaError, RemoteProtocolError) as error:
            self._delay(followed, str(error))
        self._after_change(followed)

    def _check_moved(self, followed: PartitionFetchState, before: FetchPosition) -> None:
        """Raises RemoteProtocolError if the position has not changed: otherwise we would repeat the same request
        forever.
        """
        if followed.follower.reached == before:
            raise RemoteProtocolError("the leader's answer does not change the position")
        self._client.corrected(followed)

    async def _leader_offset(
        self, connection: NodeConnection, follower: PartitionFollower, timestamp: int
    ) -> Offset:
        replica = follower.replica
        request = ListOffsetsRequest(
            replica_id=self._client.settings.replica_id,
            topics=[
                ListOffsetsTopic(
                    name=replica.topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=replica.index,
                            current_leader_epoch=follower.epoch,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        response = await connection.call(request, timeout=self._client.settings.response_seconds)
        if follower.ended:
            raise _LeaderError(ErrorCode.FENCED_LEADER_EPOCH)
        return _offset_in(response, replica)


def _partitions_of(response: FetchResponse) -> Iterator[tuple[TopicIdPartition, PartitionData]]:
    for topic in response.responses:
        for data in topic.partitions:
            yield TopicIdPartition(topic.topic_id, data.partition_index), data


def _place_in(diverging: EpochEndOffset) -> tuple[LeaderEpoch, Offset]:
    return diverging.epoch, diverging.end_offset


async def _prepare_cuts(cuts: Sequence[tuple[PartitionFollower, Offset]]) -> None:
    """Lowers the recovery points of open logs to their values after truncation."""
    points: dict[TopicPartition, Offset] = {}
    for follower, offset in cuts:
        replica = follower.replica
        with suppress(KafkaError):  # truncating a damaged log reports the error
            if (point := replica.log.recovery_point_after(offset)) is not None:
                points[replica.topic_partition] = point
    if points:
        await cuts[0][0].replica.services.directories.lower_recovery_points(points)


def _offset_in(response: ListOffsetsResponse, replica: Replica) -> Offset:
    """Returns the offset in the response. Raises _LeaderError, or RemoteProtocolError if it has no offset of
    `replica`.
    """
    for topic in response.topics:
        for partition in topic.partitions:
            if (topic.name, partition.partition_index) == replica.topic_partition:
                if partition.error_code:
                    raise _LeaderError(ErrorCode.of(partition.error_code))
                if partition.offset >= 0:
                    return partition.offset
    raise RemoteProtocolError("the leader's answer to ListOffsets names no offset")


def _key(replica: Replica) -> TopicIdPartition:
    return replica.topic_id_partition
