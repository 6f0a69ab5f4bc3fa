"""Fetch sessions: the broker remembers the partitions of a fetcher, so that requests and responses name only changes
(KIP-227).

Source: `FetchSession`, `FetchManager` and `FetchSessionCacheShard` of Kafka. Unlike in Kafka, a session also ends with
the connection that opened it: its owner then gets FETCH_SESSION_ID_NOT_FOUND and opens a new one. There are no
shards, because a single event loop needs no locks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from trimaran.broker.fetching.fetch import Fetch, FetchReader
from trimaran.broker.fetching.slots import Slot, key_of
from trimaran.node.text.memory import text_bytes
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import (
    INITIAL_ACL_EPOCH,
    AclEpoch,
    SessionEpoch,
    TopicIdPartition,
    TopicPartition,
)
from trimaran.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic
from trimaran.wire.transport.scheduling.effects import Handling

NO_SESSION = 0
INITIAL_EPOCH = SessionEpoch(0)
FIRST_EPOCH = SessionEpoch(1)  # the epoch of the request after a full one
FINAL_EPOCH = SessionEpoch(-1)
EPOCH_MAX = (1 << 31) - 1
# As in Kafka, a session that was used within two minutes is not evicted for another session of the same kind.
EVICTION_IDLE_SECONDS = 120.0
# The maximum number of partitions in all sessions, about 400 bytes each: 80 MB, which a single client may use up. Two
# followers and two consumers of 50,000 partitions fit; further fetches work without a session. Kafka does not limit
# this number.
PARTITIONS_MAX = 200_000
# The maximum length of a topic name; each partition of a session may belong to a different topic.
NAME_BYTES_MAX = 255


def next_epoch(epoch: SessionEpoch) -> SessionEpoch:
    """Returns the epoch after this one: epochs count from 1 after the initial 0, and wrap to 1."""
    return FIRST_EPOCH if epoch >= EPOCH_MAX else epoch + 1


@dataclass(slots=True)
class SessionCapacity:
    """The number of partitions in all sessions, and its maximum."""

    partitions_max: int
    used: int = 0

    def has(self, count: int) -> bool:
        return self.used + count <= self.partitions_max


@dataclass(slots=True, eq=False)
class FetchSession:
    """The partitions of one fetcher; `epoch` is the epoch that its next request must have."""

    id: int
    privileged: bool  # belongs to a follower: sessions of consumers are evicted for it
    by_id: bool  # partitions are named by topic id
    reader: FetchReader
    used_at: float
    room: SessionCapacity
    epoch: SessionEpoch = FIRST_EPOCH
    slots: dict[TopicPartition | TopicIdPartition, Slot] = field(default_factory=dict)
    current_fetch: Fetch | None = None
    # The authorizer's epoch when all partitions were last read.
    acl_epoch: AclEpoch = INITIAL_ACL_EPOCH
    closed: bool = False
    # The partitions that updates in progress have reserved in `room`: an update takes several steps, and other sessions
    # may grow in between.
    reserved: int = 0
    updates: int = 0
    # Called when the session ends, so that its connection releases the session.
    on_close: Callable[[], object] | None = None

    @property
    def size(self) -> int:
        """The number of partitions, including those that are about to be added."""
        return len(self.slots) + self.reserved

    def reserve(self, count: int) -> None:
        """Reserves room for `count` partitions that the next update may add."""
        self.room.used += count
        self.reserved += count

    def update(
        self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic]
    ) -> Handling[None]:
        """Adds and changes partitions, then removes the forgotten ones; unknown forgotten partitions are ignored.
        Releases unused reserved room at the end.
        """
        self.updates += 1
        return self._update(topics, forgotten)

    def _update(
        self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic]
    ) -> Handling[None]:
        for topic in topics:
            yield from self._update_topic(topic)
        for gone in forgotten:
            for index in gone.partitions:
                yield None
                if slot := self.slots.pop(key_of(gone, index), None):
                    self.room.used -= 1
                    slot.detach()
                    self.reader.changed.pop(slot, None)
        self.updates -= 1
        if not self.updates:
            self._release_reserved()

    def _update_topic(self, topic: FetchTopic) -> Handling[None]:
        for wanted in topic.partitions:
            if self.closed:  # closed between two steps
                return
            key = key_of(topic, wanted.partition)
            slot = self.slots.get(key)
            if slot is None:
                slot = Slot(self.reader, topic, wanted, upto_end=self.privileged)
                self.slots[key] = slot
                if self.reserved:
                    self.reserved -= 1
                else:  # another request of this session has removed the partition since
                    self.room.used += 1
            else:
                slot.update(wanted)
            self.reader.changed[slot] = None
            if len(self.reader.changed) > 1:
                yield None

    def _release_reserved(self) -> None:
        self.room.used -= self.reserved
        self.reserved = 0

    def reserve_for(self, topics: Iterable[FetchTopic]) -> bool:
        """Reserves room for the partitions that are new to the session; returns False if they do not fit. Known
        partitions are only subtracted if all partitions together would not fit. Topic names that are too long never
        fit.
        """
        topics = list(topics)
        if has_long_names(topics):
            return False
        count = sum(len(topic.partitions) for topic in topics)
        if not self.room.has(count):
            count = sum(
                (_name(topic), wanted.partition) not in self.slots
                for topic in topics
                for wanted in topic.partitions
            )
        if not self.room.has(count):
            return False
        self.reserve(count)
        return True

    def begin(self, fetch: Fetch) -> None:
        """Makes `fetch` the current one; a fetch that is still waiting ends at once without a response.

        A fetcher with new partitions need not wait for its long poll to end: it sends the next request, which releases
        the previous one. (Kafka reads the second request only after it has answered the first: slower, not wrong.)
        """
        if self.current_fetch is not None:
            self.current_fetch.release()
        self.current_fetch = fetch

    def note_acl_epoch(self, acl_epoch: AclEpoch) -> None:
        """Makes the next fetch read all partitions if ACLs have changed since the previous one."""
        if acl_epoch != self.acl_epoch:
            self.acl_epoch = acl_epoch
            self.reader.changed.update(dict.fromkeys(self.slots.values()))

    def finished(self, fetch: Fetch) -> None:
        if self.current_fetch is fetch:
            self.current_fetch = None

    def close(self) -> None:
        self.closed = True
        for slot in self.slots.values():
            slot.detach()
        self.room.used -= len(self.slots)
        self._release_reserved()
        self.slots.clear()
        if self.current_fetch is not None:
            self.current_fetch.release()
        self.reader.changed.clear()
        if self.on_close is not None:
            self.on_close()


def has_long_names(topics: Iterable[FetchTopic]) -> bool:
    """Whether any topic name is too long to be remembered."""
    return any(text_bytes(topic.topic) > NAME_BYTES_MAX for topic in topics)


def _name(topic: FetchTopic) -> str | bytes:
    return topic.topic if topic.topic_id == NIL_UUID else topic.topic_id


class FetchSessions:
    """The sessions of this broker: at most `sessions_max`, with at most `partitions_max` partitions in total."""

    def __init__(self, sessions_max: int, partitions_max: int = PARTITIONS_MAX) -> None:
        self._room = SessionCapacity(partitions_max)
        self._sessions_max = sessions_max
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, now: float) -> FetchSession:
        """Returns the session that an incremental request continues, and advances its epoch.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != all(topic.topic_id != NIL_UUID for topic in request.topics) and (
            request.topics
        ):
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if not session.reserve_for(request.topics):
            # The client retries with a full fetch, which then works without a session.
            self.close(session.id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = next_epoch(session.epoch)
        session.used_at = now
        return session

    def open(self, *, privileged: bool, by_id: bool, size: int, now: float) -> FetchSession | None:
        """Opens a session of about `size` partitions; returns None if there is no room: then every fetch is a
        full one.
        """
        if size > self._room.partitions_max:
            return None
        while len(self._sessions) >= self._sessions_max or not self._room.has(size):
            if not self._evict(privileged, size, now):
                return None
        session = FetchSession(
            self._new_id(),
            privileged,
            by_id,
            FetchReader(in_session=True),
            used_at=now,
            room=self._room,
        )
        session.reserve(size)
        self._sessions[session.id] = session
        return session

    def close(self, session_id: int) -> None:
        """Closes a session if it still exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _new_id(self) -> int:
        while True:
            session_id = secrets.randbelow(EPOCH_MAX) + 1
            if session_id not in self._sessions:
                return session_id

    def _evict(self, privileged: bool, size: int, now: float) -> bool:
        """Makes room by Kafka's three rules: evicts idle sessions, then consumers for followers, then small sessions
        for large ones.
        """
        least_used = min(self._sessions.values(), key=lambda session: session.used_at, default=None)
        if least_used is None:
            return False
        if now - least_used.used_at >= EVICTION_IDLE_SECONDS:
            victim = least_used
        else:
            ordinary = [session for session in self._sessions.values() if not session.privileged]
            rivals = ordinary or ([] if not privileged else list(self._sessions.values()))
            if not rivals:
                return False
            victim = min(rivals, key=lambda session: (session.size, session.used_at))
            if not (privileged and not victim.privileged) and victim.size >= size:
                return False
        self.close(victim.id)
        return True
