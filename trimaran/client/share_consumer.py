"""A share consumer of one topic: a member of a share group, with a share session at each leader of a partition.

It runs in the caller's thread and has one request in flight. So heartbeats are sent between two fetches.
An acknowledgement waits for the next request to the leader of its record; the last ones are sent when the consumer is
closed. Closing also releases all records without an acknowledgement.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from trimaran.client.membership import new_member_id
from trimaran.client.share_member import ShareMembership
from trimaran.client.share_run import ShareRun
from trimaran.client.share_session import LeaderSession, SharedRecord
from trimaran.errors.refused import Needs, error_about
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import BrokerId, TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.schema import Message

# The time for which all leaders together may wait for records: Ctrl-C is noticed after this time at the latest.
WAIT_MS = 500
# As in Kafka's consumer (max.poll.records).
RECORDS_MAX = 500
# The leaders are looked up again if one does not answer within this time.
ANSWER_SECONDS = 5.0
# The pause before leaders are looked up again, and between heartbeats of a member without partitions.
IDLE_SECONDS = 0.1
_SESSION_LOST = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
# Errors of a partition after which its leader is looked up again.
_ELSEWHERE = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class ShareConsumer:
    """A member of `group` that reads `topic` while its block runs. `lost` counts records with an acknowledgement that
    did not take effect, so that they may be delivered again.
    """

    def __init__(
        self,
        client: BlockingClient,
        group: str,
        topic: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._topic = client, topic
        self._clock, self._sleep = clock, sleep
        self._member = ShareMembership(group, new_member_id(), topic)
        self._sessions: dict[BrokerId, LeaderSession] = {}
        self._reader: dict[TopicIdPartition, LeaderSession] = {}
        self._run = ShareRun()
        self._is_stale = False
        self.lost = 0

    def __enter__(self) -> Self:
        self._client.refresh([self._topic])
        self._beat()
        return self

    def __exit__(self, *_: object) -> None:
        """Sends the acknowledgements that wait, gives all other records back, and leaves the group."""
        for leader, session in self._sessions.items():
            self._close(leader, session)
        leaving = self._member.leaving()
        if leaving is not None:
            try:
                self._client.call(
                    CoordinatorNode(self._member.group), leaving, timeout=ANSWER_SECONDS
                )
            except (ConnectionLost, RequestTimedOut):
                return  # the session timeout ends the membership

    def records(
        self,
        limit: int | None = None,
        *,
        run: ShareRun | None = None,
        quiet_seconds: float | None = None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> Iterator[SharedRecord]:
        """Yields records until the iterator is closed, one by one: each is to be acknowledged before the next.

        Args:
            limit: the number of records after which it ends.
            run: the part of the records that it yields; by default all.
            quiet_seconds: it ends when no record has arrived for this time, since partitions were assigned.
            goes_on: called before each round of fetches, and before each record; returns False to end.
        """
        left = limit
        quiet_since = self._clock()
        is_busy = False
        self._run = run or ShareRun()
        while goes_on() and left != 0:
            if self._run.is_over(self._member.assigned, self._clock()):
                return
            if self._member.is_due(self._clock()):
                self._beat()
            rounds = self._leaders()
            if not rounds:
                quiet_since = quiet_since if self._member.assigned else self._clock()
                self._sleep(IDLE_SECONDS)
                continue
            wait_ms = 0 if is_busy else WAIT_MS // len(rounds)
            is_busy = False
            for leader, wanted in rounds.items():
                for record in self._fetched(leader, wanted, wait_ms, left):
                    if not goes_on():
                        return
                    is_busy, quiet_since = True, self._clock()
                    yield record
                    left = None if left is None else left - 1
                    if left == 0:
                        return
                if self._member.is_due(self._clock()):
                    self._beat()
            if quiet_seconds is not None and self._clock() - quiet_since >= quiet_seconds:
                return

    def acknowledge(self, record: SharedRecord, kind: int) -> None:
        """Acknowledges a record as `ACCEPT`, `RELEASE` or `REJECT`."""
        session = self._reader.get(record.partition)
        if session is not None:
            session.acknowledge(record.partition, record.record.offset, kind)

    def _beat(self) -> None:
        """Sends a heartbeat; a member that the coordinator has removed joins again with the next one."""
        response = self._client.call(CoordinatorNode(self._member.group), self._member.heartbeat())
        self._member.received(response, self._clock())

    def _leaders(self) -> dict[BrokerId, list[TopicIdPartition]]:
        """Returns the assigned partitions by leader, and closes sessions with other nodes. Partitions without a known
        leader are omitted; all are looked up again after a pause.
        """
        routing = self._client.routing
        found: dict[BrokerId, list[TopicIdPartition]] = {}
        for key in sorted(self._member.assigned):
            leader = routing.leader(TopicPartition(self._topic, key.partition))
            is_known = leader is not None and leader.leader_id in routing.nodes
            if leader is None or not is_known or routing.topic_id(self._topic) != key.topic_id:
                self._is_stale = True
            else:
                found.setdefault(BrokerId(leader.leader_id), []).append(key)
        if self._is_stale:
            self._is_stale = False
            self._sleep(IDLE_SECONDS)
            self._client.refresh([self._topic])
        for leader_id in self._sessions.keys() - found.keys():
            self._close(leader_id, self._sessions.pop(leader_id))
        return found

    def _fetched(
        self, leader: BrokerId, wanted: list[TopicIdPartition], wait_ms: int, left: int | None
    ) -> Iterator[SharedRecord]:
        """Yields the records that a leader returns, as long as the locks last: after that, records belong to other
        members.
        """
        session = self._sessions.setdefault(
            leader, LeaderSession(self._member.group, self._member.member)
        )
        request = session.fetch(
            wanted,
            wait_ms=wait_ms,
            records_max=RECORDS_MAX if left is None else min(left, RECORDS_MAX),
            is_strict=left is not None,
        )
        response = self._sent(leader, session, request)
        if response is None:
            return
        lock_ms = response.acquisition_lock_timeout_ms
        until = self._clock() + lock_ms / 1000 if lock_ms > 0 else math.inf
        found = [
            (TopicIdPartition(topic.topic_id, told.partition_index), told)
            for topic in response.responses
            for told in topic.partitions
        ]
        # All errors are counted before the first record is yielded, since the caller may stop before later partitions.
        for key, told in found:
            self._note(session, key, told.acknowledge_error_code)
        for key, told in found:
            if not self._has_records(told):
                continue
            for record in session.records(key, told):
                if self._clock() >= until or self._run.has_locks_ending(self._clock()):
                    return
                if not self._run.wants(key, record.record.offset):
                    continue
                self._run.locked(until)
                self._reader[key] = session
                yield record
                if self._member.is_due(self._clock()):
                    self._beat()

    def _has_records(self, told: Any) -> bool:
        """Returns whether a partition was read. Raises KafkaError unless another leader may succeed."""
        if told.error_code in _ELSEWHERE:
            self._is_stale = True
        elif told.error_code:
            code = ErrorCode.of(told.error_code)
            where = f"{self._topic}-{told.partition_index}"
            raise error_about(code, told.error_message, where, Needs("READ", topic=self._topic))
        return not told.error_code

    def _sent(self, leader: BrokerId, session: LeaderSession, request: Message) -> Any | None:
        """Sends a request of a session, and returns the response; None if the session was lost.

        Raises:
            KafkaError: the leader refuses the member.
        """
        response = self._answer(leader, request)
        code, why = ErrorCode.SHARE_SESSION_NOT_FOUND, ""
        if response is not None:
            code, why = ErrorCode.of(response.error_code), response.error_message or ""
            if code is ErrorCode.NONE:
                session.received()
                return response
        self.lost += session.sent
        session.lost()
        if code in _SESSION_LOST:
            return None
        group = self._member.group
        raise error_about(code, why, f"group {group}", Needs("READ", group=group))

    def _answer(self, leader: BrokerId, request: Message) -> Any | None:
        """Sends a request once; returns None if there is no answer. The leader ends the session with the connection."""
        try:
            return self._client.call(
                leader, request, timeout=ANSWER_SECONDS, retry_unknown=False, retried=frozenset()
            )
        except (ConnectionLost, RequestTimedOut):
            self._is_stale = True
            return None

    def _note(self, session: LeaderSession, partition: TopicIdPartition, code: int) -> None:
        """Counts acknowledgements of a partition that did not take effect."""
        if code:
            self.lost += session.sent_of(partition)

    def _close(self, leader: BrokerId, session: LeaderSession) -> None:
        """Ends a session; a leader that does not answer ends it with the connection."""
        closing = session.closing()
        if closing is None:
            return
        response = self._answer(leader, closing)
        if response is None or response.error_code:
            self.lost += session.sent
            return
        for topic in response.responses:
            for told in topic.partitions:
                key = TopicIdPartition(topic.topic_id, told.partition_index)
                self._note(session, key, told.error_code)
