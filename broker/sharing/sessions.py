"""Share sessions: the broker remembers the partitions of a member, so that requests name only changes (KIP-932).

A member has at most one session on a broker. Its epoch counts the member's requests, acknowledgements included. A
session ends with its connection; the records that the member holds are then released. Source: `ShareSessionCache`,
`ShareSession` and `SharePartitionManager.newContext` of Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from trimaran.broker.fetching.sessions import FINAL_EPOCH, FIRST_EPOCH, INITIAL_EPOCH, next_epoch
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import SessionEpoch, TopicIdPartition

# The maximum number of partitions in all sessions, about 300 bytes each: 60 MB. A member reads what its group assigns
# to it, so 2,000 sessions of 100 partitions fit. Kafka has no bound here.
SHARED_PARTITIONS_MAX = 200_000


class ShareSession:
    """The partitions that one member reads; `epoch` is the epoch that its next request must have.

    `on_close` is called when the session ends in any way; `is_over` is then True. A request in progress checks
    `is_over` after each pause: without a session, nothing would release the records that it acquires.
    """

    __slots__ = ("epoch", "group_id", "is_over", "member_id", "must_name", "on_close", "partitions")

    def __init__(self, group_id: str, member_id: str) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.epoch: SessionEpoch = FIRST_EPOCH
        self.is_over = False
        self.partitions: dict[TopicIdPartition, None] = {}
        # Partitions that the next response names even if they have no records: new ones, and those whose last response
        # was an error.
        self.must_name: set[TopicIdPartition] = set()
        self.on_close: Callable[[], object] | None = None

    def rotated(self, epoch: SessionEpoch) -> list[TopicIdPartition]:
        """Returns the partitions in the order in which a request of this epoch reads them: a different one is first
        each time.
        """
        partitions = list(self.partitions)
        at = epoch % len(partitions) if partitions and epoch >= FIRST_EPOCH else 0
        return partitions[at:] + partitions[:at]

    def responds(
        self, partition: TopicIdPartition, *, has_records: bool, is_error: bool, is_full: bool
    ) -> bool:
        """Returns whether a response names a partition; `is_full` is the first response of the session, which names
        all. Updates `must_name` and the order of the partitions for the next response.
        """
        if is_full:
            return True
        named = has_records or is_error or partition in self.must_name
        self.must_name.discard(partition)
        if is_error:
            self.must_name.add(partition)
        if has_records and partition in self.partitions:
            del self.partitions[partition]
            self.partitions[partition] = None  # moves behind the partitions without records
        return named


class ShareSessions:
    """The share sessions of this broker: at most `sessions_max`, with at most `partitions_max` partitions in total."""

    def __init__(self, sessions_max: int, partitions_max: int = SHARED_PARTITIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_group: Counter[str] = Counter()
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return self._partitions

    def has_group(self, group_id: str) -> bool:
        """Whether any member of the group has a session."""
        return group_id in self._of_group

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Whether the member has a session."""
        return (group_id, member_id) in self._sessions

    def begin(
        self,
        group_id: str,
        member_id: str,
        partitions: Sequence[TopicIdPartition],
        *,
        acknowledges: bool,
    ) -> ShareSession:
        """Begins a session for a fetch of epoch 0. If it fits, it replaces an earlier session of the member; the
        member's records stay acquired.

        Raises:
            KafkaError: INVALID_REQUEST: the request has acknowledgements, although there is no session yet.
                SHARE_SESSION_LIMIT_REACHED.
        """
        if acknowledges:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        replaced = self._sessions.get((group_id, member_id))
        is_full = replaced is None and len(self._sessions) >= self._sessions_max
        kept = self._partitions - (0 if replaced is None else len(replaced.partitions))
        if is_full or kept + len(partitions) > self._partitions_max:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        if replaced is not None:
            self.close(replaced)
        session = ShareSession(group_id, member_id)
        self._sessions[group_id, member_id] = session
        self._of_group[group_id] += 1
        self._add(session, partitions)
        return session

    def resume(
        self,
        group_id: str,
        member_id: str,
        epoch: SessionEpoch,
        added: Sequence[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition],
    ) -> ShareSession:
        """Continues a session with a fetch of a later epoch, or finds the one that a fetch of the final epoch ends.

        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH; SHARE_SESSION_LIMIT_REACHED: the new
                partitions do not fit.
        """
        session = self._find(group_id, member_id)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if self._partitions + len(added) > self._partitions_max:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session.must_name.update(each for each in added if each not in session.partitions)
        self._add(session, added)
        for gone in forgotten:
            if session.partitions.pop(gone, self) is None:
                self._partitions -= 1
                session.must_name.discard(gone)
        session.epoch = next_epoch(session.epoch)
        return session

    def acknowledge(self, group_id: str, member_id: str, epoch: SessionEpoch) -> ShareSession:
        """Counts an acknowledgement in its session.

        Raises:
            KafkaError: INVALID_SHARE_SESSION_EPOCH: also for epoch 0, since an acknowledgement begins no session;
                SHARE_SESSION_NOT_FOUND.
        """
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return self.resume(group_id, member_id, epoch, (), ())

    def close(self, session: ShareSession) -> bool:
        """Ends a session; returns False if it has ended already."""
        key = session.group_id, session.member_id
        if self._sessions.get(key) is not session:
            return False
        session.is_over = True
        del self._sessions[key]
        self._partitions -= len(session.partitions)
        self._of_group[session.group_id] -= 1
        if not self._of_group[session.group_id]:
            del self._of_group[session.group_id]
        if session.on_close is not None:
            session.on_close()
        return True

    def close_all(self) -> None:
        """Ends all sessions: share groups are no longer served."""
        for session in list(self._sessions.values()):
            self.close(session)

    def _find(self, group_id: str, member_id: str) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def _add(self, session: ShareSession, partitions: Iterable[TopicIdPartition]) -> None:
        before = len(session.partitions)
        session.partitions.update(dict.fromkeys(partitions))
        self._partitions += len(session.partitions) - before
