"""The delivery of dead letters to the queue of a share group (KIP-1191): which steps come next, without any I/O.

A letter is a record with the cause in its headers, and with key and value of the original record if the group wants
copies. Letters go to the queue's partition with the number of the original partition, modulo their count. The letters
of one delivery are written in rounds, each as large as `max.message.bytes` of the queue allows. A letter may be written
twice: after a lost answer, or when the next leader resumes. Source: Kafka's `ShareGroupDLQStateManager`,
`ShareGroupDLQManager`. Intentional difference: while a queue has no leader, the delivery waits and sends no request to
create it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

from trimaran.broker.sharing.acknowledging import Cause, DeadLetters
from trimaran.log.batches.batch import HEADER_BYTES
from trimaran.log.batches.records import NewRecord
from trimaran.quorum.metadata.image import NO_LEADER
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import BrokerId, Offset

E = ErrorCode

# The attempts to create the queue, and those of each round, with 2, 4, 8 and 16 seconds between them as in Kafka.
ATTEMPTS_MAX = 5
RETRY_SECONDS = 2.0
RETRY_SECONDS_MAX = 30.0

_CREATED_LATER = frozenset(
    {E.NONE, E.TOPIC_ALREADY_EXISTS, E.THROTTLING_QUOTA_EXCEEDED, E.NETWORK_EXCEPTION}
)
_WRITTEN_LATER = frozenset({E.NOT_LEADER_OR_FOLLOWER, E.NETWORK_EXCEPTION})
_TEXTS = {
    Cause.REJECTED: "Offset rejected by client.",
    Cause.DELIVERED_TOO_OFTEN: "Offset delivery count exceeded the threshold.",
}
# The maximum size of the lengths, deltas and counts of a record, in bytes.
_RECORD_OVERHEAD = 30
_HEADER_OVERHEAD = 6


class Undelivered(Exception):
    """Letters cannot be written to their queue; the text is the reason."""


class Unwritten(Undelivered):
    """The leader of the queue has refused the letters."""


class QueueTopic(NamedTuple):
    """The topic of a queue. `leaders` has NO_LEADER for a partition without a live leader."""

    id: bytes
    is_enabled: bool
    leaders: Sequence[BrokerId]
    bytes_max: int


class Queue(NamedTuple):
    """The queue of a group by the current configuration and metadata; `topic` is None while it is missing."""

    name: str
    prefix: str
    creates: bool
    copies: bool
    topic: QueueTopic | None


class Source(NamedTuple):
    """The share partition of the letters."""

    group_id: str
    topic: str
    partition: int


class CreateQueue(NamedTuple):
    """Requests the topic from the controller; the result is its error code. NETWORK_EXCEPTION: no answer."""

    name: str


class ReadRecords(NamedTuple):
    """Reads committed records of the source; the result is a `Copies`.

    All keys and values together have at most `bytes_max` bytes; a record with more than `bytes_of_one` is not copied.
    """

    first: Offset
    last: Offset
    bytes_max: int
    bytes_of_one: int


class Copies(NamedTuple):
    """Keys and values by offset. Below `end`, records that are missing here cannot be read."""

    records: Mapping[Offset, tuple[bytes | None, bytes | None]]
    end: Offset


class WriteLetters(NamedTuple):
    """Produces records to the leader of the queue's partition; the result is its error code. NETWORK_EXCEPTION: no
    answer.
    """

    leader: BrokerId
    name: str
    topic_id: bytes
    partition: int
    records: list[NewRecord]


class PauseDelivery(NamedTuple):
    """A pause before the next step."""

    seconds: float


Steps = Generator[CreateQueue | ReadRecords | WriteLetters | PauseDelivery, Any, None]


class Delivery:
    """The delivery of some letters. `look` returns the current queue; `now_ms` the wall-clock time."""

    def __init__(
        self,
        source: Source,
        letters: Sequence[DeadLetters],
        look: Callable[[], Queue],
        now_ms: Callable[[], int],
        uniform: Callable[[], float] | None = None,
    ) -> None:
        self._source = source
        self._left = deque(letters)
        self._look = look
        self._now_ms = now_ms
        self._creating, self._writing = (
            ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX, uniform=uniform) for _ in range(2)
        )

    def steps(self) -> Steps:
        """Yields the steps until all letters are written. Raises Undelivered."""
        while self._left:
            queue = self._checked()
            topic = queue.topic
            index = 0 if topic is None else self._source.partition % len(topic.leaders)
            if topic is None or topic.leaders[index] == NO_LEADER:
                yield from self._missing(queue)
                continue
            self._creating.succeeded()
            records = yield from self._round(queue, topic.bytes_max)
            leader = topic.leaders[index]
            code = yield WriteLetters(leader, queue.name, topic.id, index, records)
            if code is E.NONE:
                self._writing.succeeded()
                self._drop(len(records))
            elif code in _WRITTEN_LATER:
                yield _retried(
                    self._writing, f"{queue.name} cannot be written: {code.name}", Unwritten
                )
            else:
                raise Unwritten(f"{queue.name} cannot be written: {code.name}")

    # -- the queue

    def _checked(self) -> Queue:
        """Returns the queue. Raises Undelivered in the order of Kafka's checks."""
        queue = self._look()
        if not queue.name:
            raise Undelivered("the group has no dead-letter queue")
        if queue.name.startswith("__"):
            raise Undelivered(f"{queue.name} has the name of an internal topic")
        if queue.topic is not None and not queue.topic.is_enabled:
            raise Undelivered(f"{queue.name} is not enabled as a dead-letter queue")
        if queue.topic is None and not queue.creates:
            raise Undelivered(f"{queue.name} does not exist, and is not created automatically")
        if not queue.name.startswith(queue.prefix):
            raise Undelivered(f"{queue.name} does not begin with {queue.prefix}")
        return queue

    def _missing(self, queue: Queue) -> Steps:
        """Creates the topic, or waits for a leader."""
        code = E.NONE
        if queue.topic is None:
            code = yield CreateQueue(queue.name)
            if code is E.NONE and self._look().topic is not None:
                return
        if code not in _CREATED_LATER:
            raise Undelivered(f"{queue.name} cannot be created: {code.name}")
        why = "has no leader" if code is E.NONE else f"cannot be created: {code.name}"
        yield _retried(self._creating, f"{queue.name} {why}")

    # -- letters

    def _round(
        self, queue: Queue, bytes_max: int
    ) -> Generator[CreateQueue | ReadRecords | WriteLetters | PauseDelivery, Any, list[NewRecord]]:
        """Returns the next records, as many as fit into a batch, and at least one."""
        records: list[NewRecord] = []
        size, now_ms = HEADER_BYTES, self._now_ms()
        for letters in self._left:
            offset, last = letters.batch[:2]
            copies = Copies({}, Offset(last + 1))
            if queue.copies:
                bare = size_of(self._letter(letters, last, copies, now_ms))
                left, most = (max(0, bytes_max - used - bare) for used in (size, HEADER_BYTES))
                copies = yield ReadRecords(offset, last, left, most)
            end = max(min(copies.end, last + 1), offset + (not records))
            while offset < end:
                record = self._letter(letters, offset, copies, now_ms)
                size += size_of(record)
                if records and size > bytes_max:
                    return records
                records.append(record)
                offset = Offset(offset + 1)
            if end <= last:
                break
        return records

    def _letter(
        self, letters: DeadLetters, offset: Offset, copies: Copies, now_ms: int
    ) -> NewRecord:
        key, value = copies.records.get(offset, (None, None))
        source = self._source
        texts = {
            "topic": source.topic,
            "partition": str(source.partition),
            "offset": str(offset),
            "group": source.group_id,
            "delivery.count": str(letters.batch.delivery_count),
            "message": _TEXTS[letters.cause],
        }
        headers = [(f"__dlq.errors.{name}", text.encode()) for name, text in texts.items()]
        return NewRecord(key, value, now_ms, headers)

    def _drop(self, count: int) -> None:
        """Forgets the first letters: they are written."""
        while count:
            letters = self._left.popleft()
            first, last = letters.batch[:2]
            if count <= last - first:
                rest = letters.batch._replace(first_offset=Offset(first + count))
                self._left.appendleft(letters._replace(batch=rest))
                return
            count -= last - first + 1


def joined(letters: Sequence[DeadLetters]) -> list[DeadLetters]:
    """Returns the letters with neighbours of the same cause and count as one."""
    found: list[DeadLetters] = []
    for each in letters:
        before = found[-1] if found else None
        if (
            before is not None
            and before.cause is each.cause
            and before.batch.last_offset + 1 == each.batch.first_offset
            and before.batch[2:] == each.batch[2:]
        ):
            batch = before.batch._replace(last_offset=each.batch.last_offset)
            found[-1] = before._replace(batch=batch)
        else:
            found.append(each)
    return found


def size_of(record: NewRecord) -> int:
    """Returns an upper bound of the size of a record in a batch, in bytes."""
    named = sum(len(name) + len(text or b"") + _HEADER_OVERHEAD for name, text in record.headers)
    return _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + named


def _retried(
    backoff: ExponentialBackoff, why: str, error: type[Undelivered] = Undelivered
) -> PauseDelivery:
    if backoff.failures + 1 >= ATTEMPTS_MAX:
        raise error(f"{why}, after {ATTEMPTS_MAX} attempts")
    return PauseDelivery(backoff.failed())
