"""Replicates from one leader: one task, one connection, one incremental fetch session for all partitions it leads.

Source: `AbstractFetcherThread`, `ReplicaFetcherThread`, `RemoteLeaderEndPoint`, `FetchSessionHandler` of Kafka.

A round: send the positions that changed; append what comes; wait until it is durable; send. While an answer is parked at
the leader, news does not wait for it: partitions that begin to follow go in a second request, upon which our leaders
release the first at once, and Kafka's answer both in turn. Answers are processed in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from broker.fetching.sessions import INITIAL_EPOCH, NO_SESSION, next_epoch
from broker.partitions.follower import FetchPosition, FollowerEpoch
from broker.partitions.partition import Partition
from wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from wire.outgoing import records_view
from wire.transport.node_connection import NodeConnection, open_node_connection

log = logging.getLogger(__name__)

# Between attempts to reach a leader, and before a partition that the leader refused is asked for again. The first is for
# a leader that has not heard of its epoch yet, the last is Kafka's replica.fetch.backoff.ms.
PAUSE_SECONDS = 0.02
PAUSE_SECONDS_MAX = 1.0
# An answer is late if it takes longer than this beyond the long poll.
ANSWER_SECONDS = 30.0
OPENINGS_PER_TURN = 20  # logs opened between two checkpoints of the loop

LATEST = -1
EARLIEST_LOCAL = -4

Address = tuple[str, int]
Key = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Kafka's replica.fetch.* keys, and who fetches."""

    replica_id: int
    broker_epoch: Callable[[], int]
    wait_max_ms: int
    min_bytes: int
    partition_bytes_max: int
    response_bytes_max: int


@dataclass(slots=True)
class _Followed:
    """One partition being replicated; `sent` is what the session knows of it, None before the first request."""

    follower: FollowerEpoch
    sent: FetchPosition | None = None
    resume_at: float = 0.0  # not asked for before
    pause: float = PAUSE_SECONDS


@dataclass(slots=True)
class _Session:
    """The client's side of a fetch session (KIP-227)."""

    id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH
    known: dict[Key, None] = field(default_factory=dict)


class Fetcher:
    """All that this broker follows of `leader_id`; `run` replicates until cancelled."""

    def __init__(
        self,
        leader_id: int,
        address_of: Callable[[int], Address | None],
        settings: FetchSettings,
        client_id: str,
    ) -> None:
        self.leader_id = leader_id
        self._address_of = address_of
        self._settings = settings
        self._client_id = client_id
        self._new: dict[Key, Partition] = {}
        self._followed: dict[Key, _Followed] = {}
        self._flushing: dict[Key, None] = {}
        self._session = _Session()
        self._in_flight = 0
        self._last_answered = trio.Event()
        self._failure: Exception | None = None
        self._news = trio.Event()

    def __len__(self) -> int:
        return len(self._new) + len(self._followed)

    def add(self, partition: Partition) -> None:
        """Replicates `partition` in its present epoch."""
        key = (partition.topic_id, partition.index)
        self._followed.pop(key, None)
        self._new[key] = partition
        self._news.set()

    def remove(self, partition: Partition) -> None:
        """Its epoch is over."""
        key = (partition.topic_id, partition.index)
        self._new.pop(key, None)
        self._followed.pop(key, None)
        self._flushing.pop(key, None)
        self._news.set()

    async def run(self) -> None:
        """Connects, replicates, and after a failure begins anew, for ever."""
        pause = PAUSE_SECONDS
        while True:
            address = self._address_of(self.leader_id)
            began = trio.current_time()
            try:
                if address is not None:
                    async with open_node_connection(
                        *address, client_id=self._client_id, copy_records=False
                    ) as connection:
                        await self._replicate(connection)
            except (ConnectionLost, RequestTimedOut, VersionMismatch, RemoteProtocolError) as error:
                log.info("replication from broker %d stops: %s", self.leader_id, error)
            if trio.current_time() - began > PAUSE_SECONDS_MAX:
                pause = PAUSE_SECONDS
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _replicate(self, connection: NodeConnection) -> None:
        self._begin_session()
        async with trio.open_nursery() as nursery:
            while self._failure is None:
                self._news = trio.Event()
                await self._take_new()
                request = self._next_request()
                if request is None:
                    await self._wait_for_news()
                else:
                    before, self._last_answered = self._last_answered, trio.Event()
                    self._in_flight += 1
                    nursery.start_soon(
                        self._exchange, connection, request, before, self._last_answered
                    )
            nursery.cancel_scope.cancel()
        raise self._failure

    def _begin_session(self) -> None:
        self._session = _Session()
        self._failure = None
        self._in_flight = 0
        self._last_answered = trio.Event()
        self._last_answered.set()
        for followed in self._followed.values():
            followed.sent = None

    async def _wait_for_news(self) -> None:
        """Waits for an answer, a flush, partitions to follow, or the end of a partition's pause."""
        now = trio.current_time()
        resume_at = min(
            (one.resume_at for one in self._followed.values() if one.resume_at > now),
            default=float("inf"),
        )
        with trio.move_on_at(resume_at):
            await self._news.wait()

    async def _take_new(self) -> None:
        """Begins the follower epochs of what was added, which opens logs."""
        opened = 0
        while self._new:
            key, partition = self._new.popitem()
            try:
                follower = partition.follower()
            except KafkaError as error:
                log.error("%s cannot be replicated: %s", partition.name, error)
                continue
            if follower is None or follower.leader_id != self.leader_id:
                continue
            self._followed[key] = _Followed(follower)
            follower.on_ready = self._one_flushed
            if not follower.ready:
                self._flushing[key] = None
            opened += 1
            if opened % OPENINGS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()

    def _one_flushed(self, follower: FollowerEpoch) -> None:
        self._flushing.pop((follower.partition.topic_id, follower.partition.index), None)
        if not self._flushing:
            self._news.set()

    # -- requests

    def _next_request(self) -> FetchRequest | None:
        """What to send now, None if nothing.

        With an answer outstanding only what it should not hold up: positions that the leader does not know yet.
        """
        if self._flushing or self._in_flight > 1:
            return None
        if self._in_flight and self._session.id == NO_SESSION:
            return None  # the next request must name the session, which the answer brings
        now = trio.current_time()
        topics = self._changed_positions(now)
        if self._in_flight and not topics:
            return None
        forgotten = self._forget(now)
        session = self._session
        if not session.known:
            return None
        request = self._request(topics, forgotten, session)
        session.epoch = next_epoch(session.epoch)
        return request

    def _changed_positions(self, now: float) -> list[FetchTopic]:
        session = self._session
        topics: dict[bytes, FetchTopic] = {}
        for key, followed in self._followed.items():
            if followed.resume_at > now or followed.follower.ended:
                continue
            position = followed.follower.position()
            if followed.sent == position and key in session.known:
                continue
            followed.sent = position
            session.known[key] = None
            topic = topics.setdefault(key[0], FetchTopic(topic_id=key[0], partitions=[]))
            topic.partitions.append(self._wanted(key[1], followed.follower, position))
        return list(topics.values())

    def _request(
        self, topics: list[FetchTopic], forgotten: list[ForgottenTopic], session: _Session
    ) -> FetchRequest:
        settings = self._settings
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=settings.replica_id, replica_epoch=settings.broker_epoch()
            ),
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    def _wanted(
        self, index: int, follower: FollowerEpoch, position: FetchPosition
    ) -> FetchPartition:
        return FetchPartition(
            partition=index,
            current_leader_epoch=follower.epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_fetched_epoch,
            log_start_offset=position.log_start_offset,
            partition_max_bytes=self._settings.partition_bytes_max,
        )

    def _forget(self, now: float) -> list[ForgottenTopic]:
        """Takes out of the session what is no longer followed, or not now."""
        forgotten: dict[bytes, ForgottenTopic] = {}
        for key in list(self._session.known):
            followed = self._followed.get(key)
            if followed is None or followed.follower.ended or followed.resume_at > now:
                del self._session.known[key]
                topic = forgotten.setdefault(key[0], ForgottenTopic(topic_id=key[0], partitions=[]))
                topic.partitions.append(key[1])
        return list(forgotten.values())

    async def _exchange(
        self,
        connection: NodeConnection,
        request: FetchRequest,
        before: trio.Event,
        answered: trio.Event,
    ) -> None:
        """One request and its answer, processed after the one before it."""
        try:
            response = await connection.call(
                request, timeout=request.max_wait_ms / 1000 + ANSWER_SECONDS
            )
            await before.wait()
            await self._process(connection, response)
        except (ConnectionLost, RequestTimedOut, VersionMismatch, RemoteProtocolError) as error:
            self._failure = self._failure or error
        self._in_flight -= 1
        answered.set()
        self._news.set()

    # -- answers

    async def _process(self, connection: NodeConnection, response: FetchResponse) -> None:
        if response.error_code:
            raise ConnectionLost(
                f"the leader ends the session: {ErrorCode.of(response.error_code).name}"
            )
        if response.session_id == NO_SESSION:
            self._session = _Session()  # no room for one there: every fetch is a full one
        self._session.id = response.session_id
        lost: list[_Followed] = []
        for topic in response.responses:
            for data in topic.partitions:
                followed = self._followed.get((topic.topic_id, data.partition_index))
                if followed is not None and not followed.follower.ended:
                    self._take(followed, data, lost)
        for followed in lost:
            await self._find_position(connection, followed)

    def _take(self, followed: _Followed, data: PartitionData, lost: list[_Followed]) -> None:
        follower = followed.follower
        try:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                lost.append(followed)
            elif data.error_code:
                self._pause(followed, ErrorCode.of(data.error_code).name)
            elif data.diverging_epoch.end_offset >= 0:
                diverging = data.diverging_epoch
                follower.truncate_diverging(diverging.epoch, diverging.end_offset)
            else:
                records = records_view(data.records)
                if len(records):
                    follower.append(records)
                    followed.pause = PAUSE_SECONDS
                follower.take_watermark(data.high_watermark, data.log_start_offset)
        except (KafkaError, RemoteProtocolError) as error:
            log.warning("replica of %s: %s", follower.partition.name, error)
            self._pause(followed, str(error))
        if not follower.ready:
            self._flushing[follower.partition.topic_id, follower.partition.index] = None

    def _pause(self, followed: _Followed, why: str) -> None:
        log.debug("replica of %s pauses: %s", followed.follower.partition.name, why)
        followed.resume_at = trio.current_time() + followed.pause
        followed.pause = min(2 * followed.pause, PAUSE_SECONDS_MAX)

    async def _find_position(self, connection: NodeConnection, followed: _Followed) -> None:
        """Our position is outside of the leader's log: goes where the leader's log ends, or begins."""
        follower = followed.follower
        try:
            leader_end = await self._leader_offset(connection, follower, LATEST)
            if leader_end < follower.log.log_end_offset:
                log.warning(
                    "%s is cut from %d to its leader's end %d",
                    follower.partition.name,
                    follower.log.log_end_offset,
                    leader_end,
                )
                follower.truncate_to(leader_end)
            else:
                leader_start = await self._leader_offset(connection, follower, EARLIEST_LOCAL)
                if not follower.ended and leader_start > follower.log.log_end_offset:
                    follower.start_at(leader_start)
        except KafkaError as error:
            self._pause(followed, str(error))
        if not follower.ended and not follower.ready:
            self._flushing[follower.partition.topic_id, follower.partition.index] = None

    async def _leader_offset(
        self, connection: NodeConnection, follower: FollowerEpoch, timestamp: int
    ) -> int:
        partition = follower.partition
        request = ListOffsetsRequest(
            replica_id=self._settings.replica_id,
            topics=[
                ListOffsetsTopic(
                    name=partition.topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=partition.index,
                            current_leader_epoch=follower.epoch,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        response = await connection.call(request, timeout=ANSWER_SECONDS)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code))
        if follower.ended:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        return int(answer.offset)
