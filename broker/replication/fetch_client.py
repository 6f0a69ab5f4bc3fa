"""A follower's side of a fetch session: the positions that the leader knows, and those to send next (KIP-227).

Source: `FetchSessionHandler` of Kafka. No I/O. The cost of a request depends on the changes since the previous
one: an idle partition costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimaran.broker.fetching.sessions import INITIAL_EPOCH, NO_SESSION, next_epoch
from trimaran.broker.partitions.follower import FetchPosition, PartitionFollower
from trimaran.node.quotas.replication_throttle import ReplicationThrottle
from trimaran.wire.client.backoff import exponential_seconds
from trimaran.wire.identity import (
    NO_BROKER_EPOCH,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    TopicIdPartition,
)
from trimaran.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

# The first delay before a refused partition is fetched again: the leader may not know its epoch yet. The delay doubles
# up to `FetchSettings.backoff_seconds_max`.
BACKOFF_SECONDS = 0.02

# The delay before throttled partitions are checked again: the limit may have changed by then.
HELD_BACK_SECONDS_MAX = 1.0

NEVER_SENT = (NO_LEADER_EPOCH, FetchPosition(NO_OFFSET, NO_LEADER_EPOCH, NO_OFFSET))


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The settings of a follower: its id, Kafka's replica.fetch.* keys, and replica.socket.timeout.ms
    (`response_seconds`, in addition to the long poll).
    """

    replica_id: BrokerId
    broker_epoch: Callable[[], BrokerEpoch]
    wait_max_ms: int
    min_bytes: int
    partition_bytes_max: int
    response_bytes_max: int
    backoff_seconds_max: float = 1.0
    response_seconds: float = 30.0
    throttle: ReplicationThrottle | None = None


@dataclass(slots=True)
class PartitionFetchState:
    """One partition being replicated.

    `asked_first` is the number of the first request for the present position; fetched records move the position but
    keep the number. `failures` is the number of delays since the last success, `last_error` the error logged last, and
    `repeats` the number of responses since then that only had known records. `lags` is True while committed records are
    missing, as far as is known.
    """

    key: TopicIdPartition
    follower: PartitionFollower
    asked_first: int | None = None
    failures: int = 0
    last_error: str = ""
    repeats: int = 0
    lags: bool = True

    def succeeded(self) -> None:
        """Resets the counts after new records were appended."""
        self.failures = 0
        self.last_error = ""
        self.repeats = 0


class FetchClient:
    """The partitions followed from one leader, and the session that sends it their positions.

    Invariants: the leader's knowledge of a partition in `_known` but not in `_changed` is exactly the entry in
    `_known`; the leader knows every partition in `_to_forget`.
    """

    def __init__(self, settings: FetchSettings) -> None:
        self.settings = settings
        self.session_id = NO_SESSION
        self.requests = 0  # the number of the last request, counted over all sessions
        self._epoch = INITIAL_EPOCH
        self._followed: dict[TopicIdPartition, PartitionFetchState] = {}
        # The leader epochs and positions as sent, all with the broker epoch `_sent_broker_epoch`.
        self._known: dict[TopicIdPartition, tuple[LeaderEpoch, FetchPosition]] = {}
        self._sent_broker_epoch = NO_BROKER_EPOCH
        self._changed: dict[TopicIdPartition, None] = {}
        self._to_forget: dict[TopicIdPartition, None] = {}
        self._delayed: dict[TopicIdPartition, float] = {}
        # Partitions of the session whose data in a response was dropped.
        self._dropped: set[TopicIdPartition] = set()
        self._is_throttling = False

    def __len__(self) -> int:
        return len(self._followed)

    def find(self, key: TopicIdPartition) -> PartitionFetchState | None:
        """Returns the partition if it is followed and its epoch has not ended."""
        followed = self._followed.get(key)
        return None if followed is None or followed.follower.ended else followed

    def find_asked(self, key: TopicIdPartition, request: int) -> PartitionFetchState | None:
        """Returns the partition as `find` does, but also returns None if the request with this number did not fetch it
        from its position: a response to a fetch of an ended epoch may have records that were truncated since
        (KAFKA-18723).
        """
        followed = self.find(key)
        if followed is None or followed.asked_first is None or followed.asked_first > request:
            return None
        return followed

    def add(self, key: TopicIdPartition, follower: PartitionFollower) -> None:
        self._followed[key] = PartitionFetchState(key, follower)
        self._delayed.pop(key, None)
        self._to_forget.pop(key, None)
        self._changed[key] = None

    def remove(self, key: TopicIdPartition) -> None:
        self._followed.pop(key, None)
        self._delayed.pop(key, None)
        self._forget_later(key)

    def mark_changed(self, followed: PartitionFetchState) -> None:
        """Marks a partition whose position may differ from the one that the leader knows."""
        key = followed.key
        if key not in self._delayed and self._followed.get(key) is followed:
            self._changed[key] = None

    def corrected(self, followed: PartitionFetchState) -> None:
        """Notes that the leader moved the position: requests in flight still have the one that it rejected."""
        followed.asked_first = None

    def dropped(self, key: TopicIdPartition) -> None:
        """Notes that a response had data for a partition whose epoch has ended. The leader does not send it again in
        this session: a watermark that no later write advances would remain unknown on this broker.
        """
        if key in self._known:
            self._dropped.add(key)

    def delay(self, followed: PartitionFetchState, now: float) -> None:
        """Removes a partition that the leader refuses from the session for a time that grows with each failure.

        Does nothing if it has been removed, or added again, since the request.
        """
        if self._followed.get(followed.key) is not followed:
            return
        self._delayed[followed.key] = now + self.backoff_of(followed)
        followed.failures += 1
        self._forget_later(followed.key)

    def _forget_later(self, key: TopicIdPartition) -> None:
        self._changed.pop(key, None)
        if key in self._known:
            self._to_forget[key] = None

    @property
    def backoff_seconds_max(self) -> float:
        return max(BACKOFF_SECONDS, self.settings.backoff_seconds_max)

    def backoff_of(self, followed: PartitionFetchState) -> float:
        """Returns the delay after the next error, in seconds."""
        return exponential_seconds(BACKOFF_SECONDS, self.backoff_seconds_max, followed.failures)

    @property
    def next_due(self) -> float:
        """The time at which the first delayed partition is due."""
        return min(self._delayed.values(), default=float("inf"))

    def begin(self) -> None:
        """Begins a new session, after a new connection or without a session at the leader: the next request names all
        partitions.
        """
        self.session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known.clear()
        self._dropped.clear()
        self._to_forget.clear()
        self._changed = dict.fromkeys(key for key in self._followed if key not in self._delayed)

    def answered(self, session_id: int) -> None:
        """Applies the session id of a response."""
        if session_id == NO_SESSION:
            self.begin()
        self.session_id = session_id

    def next_request(self, now: float, *, in_flight: bool) -> FetchRequest | None:
        """Returns the request, or None if no partition is followed, or if a request is `in_flight` and nothing has
        changed.

        All changed partitions must be ready.
        """
        self._resume_due(now)
        if not in_flight and not self._dropped.isdisjoint(self._followed):
            self.begin()
        self._throttle_partitions(now)
        self._resend_under_new_epoch()
        topics = self._changes()
        if (in_flight and not topics) or len(self._to_forget) == len(self._known):
            return None  # the next request drops the last partition: until then the leader still reads it
        self.requests += 1
        forgotten = self._forget()
        settings = self.settings
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=settings.replica_id, replica_epoch=self._sent_broker_epoch
            ),
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
            session_id=self.session_id,
            session_epoch=self._epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        self._epoch = next_epoch(self._epoch)
        return request

    def _resume_due(self, now: float) -> None:
        for key, due in list(self._delayed.items()):
            if due <= now:
                del self._delayed[key]
                self._to_forget.pop(key, None)
                self._changed[key] = None

    def received(self, followed: PartitionFetchState, size: int, now: float) -> None:
        """Counts received bytes of records if the partition is throttled."""
        throttle, replica = self.settings.throttle, followed.follower.replica
        if throttle is not None and throttle.holds(replica.topic_partition):
            throttle.record(size, now)

    def _throttle_partitions(self, now: float) -> None:
        """Removes lagging throttled partitions from the session while the quota is exceeded (KIP-73)."""
        throttle = self.settings.throttle
        if throttle is None or not throttle.is_set:
            self._is_throttling = False
            return
        delay = throttle.delay(now)
        # While holding back, only changed partitions can be lagging and in the session.
        looked_at = [*self._changed] if self._is_throttling else [*self._known, *self._changed]
        self._is_throttling = delay > 0
        if not delay:
            return
        due = now + min(delay, HELD_BACK_SECONDS_MAX)
        for key in looked_at:
            followed = self._followed.get(key)
            if followed is None or not followed.lags:
                continue
            replica = followed.follower.replica
            if throttle.holds(replica.topic_partition):
                self._delayed[key] = due
                self._forget_later(key)

    def _resend_under_new_epoch(self) -> None:
        """Sends all positions again after a new registration: the leader considers this to be a different broker,
        without positions (KIP-903).
        """
        broker_epoch = self.settings.broker_epoch()
        if broker_epoch != self._sent_broker_epoch:
            self._sent_broker_epoch = broker_epoch
            for key in self._known:
                followed = self._followed.get(key)
                if followed is not None:
                    self.mark_changed(followed)
            self._known = dict.fromkeys(self._known, NEVER_SENT)

    def _changes(self) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        for key in self._changed:
            followed = self._followed[key]
            if followed.follower.ended:
                continue
            position = followed.follower.position()
            sent = (followed.follower.epoch, position)
            if self._known.get(key) == sent:
                # Earlier requests had the same position.
                followed.asked_first = followed.asked_first or 0
                continue
            if followed.asked_first is None:
                followed.asked_first = self.requests + 1
            self._known[key] = sent
            topic = topics.setdefault(key[0], FetchTopic(topic_id=key[0], partitions=[]))
            topic.partitions.append(self._wanted(key[1], sent[0], position))
        self._changed.clear()
        return list(topics.values())

    def _wanted(
        self, index: int, leader_epoch: LeaderEpoch, position: FetchPosition
    ) -> FetchPartition:
        return FetchPartition(
            partition=index,
            current_leader_epoch=leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_fetched_epoch,
            log_start_offset=position.log_start_offset,
            partition_max_bytes=self.settings.partition_bytes_max,
        )

    def _forget(self) -> list[ForgottenTopic]:
        """Removes delayed and unfollowed partitions from the session."""
        forgotten: dict[bytes, ForgottenTopic] = {}
        for key in self._to_forget:
            del self._known[key]
            self._dropped.discard(key)
            topic = forgotten.setdefault(key[0], ForgottenTopic(topic_id=key[0], partitions=[]))
            topic.partitions.append(key[1])
        self._to_forget.clear()
        return list(forgotten.values())
