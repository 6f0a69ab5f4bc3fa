"""The common part of the five APIs of the share coordinator: a request names share partitions of one group by topic.

Each share partition is decided separately, and has its own error. A request without a group, or with a topic without
partitions, gets a response without results. A share partition that is named twice is decided twice, and the response
has the last result. Source: Kafka's `ShareCoordinatorService`. As in Kafka, these requests are also answered while
`share.version` is not finalized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from trimaran.broker.handlers.context import ShareContext
from trimaran.broker.partitions.lookups import pausing
from trimaran.node.replicated.pending import PendingResponse, settled
from trimaran.node.runtime.steps import Steps
from trimaran.wire.codec.declarations import EncodedArray, Struct
from trimaran.wire.errors import ErrorCode, KafkaError, KeptError
from trimaran.wire.identity import NO_OFFSET, Offset, SharePartitionKey
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

T = TypeVar("T")

NO_COUNT = -1  # the value for an absent number of complete deliveries


Outcomes = dict[bytes, dict[int, T | KeptError]]
"""The response or the error of each share partition, by topic id and partition."""


Decision = PendingResponse[T] | Steps[PendingResponse[T]]


def decided(
    request: Any, ctx: ShareContext, decide: Callable[[SharePartitionKey, Any], Decision[T]]
) -> Handling[Outcomes[T]]:
    """Decides about all share partitions first, so that their records are committed together; returns when all records
    are committed. `decide` also gets the partition's item of the request; it may raise KafkaError, or work in steps.
    The decision about a share partition waits for its turn.
    """
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return {}
    pending: dict[bytes, dict[int, PendingResponse[T] | KeptError]] = {}
    for topic in request.topics:
        of_topic = pending.setdefault(topic.topic_id, {})
        for item in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, item.partition)
            turn = ctx.shares.turns.take(key)
            try:
                if not turn.has_begun:
                    yield Blocking(turn.wait)
                decision = decide(key, item)
                if not isinstance(decision, PendingResponse):
                    decision = yield from pausing(decision)
                of_topic[item.partition] = decision
            except KafkaError as error:
                of_topic[item.partition] = KeptError.of(error)
            finally:
                turn.end()
            yield None
    found: Outcomes[T] = {}
    for topic_id, each in pending.items():
        outcomes = found[topic_id] = {}
        for partition, one in each.items():
            outcomes[partition] = yield from _settled(one)
            yield None
    return found


def _settled(pending: PendingResponse[T] | KeptError) -> Handling[T | KeptError]:
    if isinstance(pending, KeptError):
        return pending
    try:
        return (yield from settled(pending))
    except KafkaError as error:
        return KeptError.of(error)


def known(offset: Offset) -> Offset | None:
    """Returns the offset, or None if the request has none."""
    return None if offset == NO_OFFSET else offset


def no_fields(_response: object) -> dict[str, Any]:
    """Returns an empty dict, for a result without further fields."""
    return {}


class Answer(NamedTuple):
    """The types of a response, of the result of a topic and of the result of a partition, with the values of its other
    fields after an error.
    """

    whole: Callable[..., Message]
    of_topic: Callable[..., Struct]
    of_partition: Callable[..., Struct]
    absent: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def responding(
        self, outcomes: Outcomes[T], fields: Callable[[T], dict[str, Any]], call: Call
    ) -> Handling[Any]:
        """Returns the response; `fields` returns the fields of a partition's result."""
        results = EncodedArray()
        for topic_id, each in outcomes.items():
            head = self.of_topic(topic_id=topic_id, partitions=[])
            partitions = (
                self.refused(partition, outcome)
                if isinstance(outcome, KeptError)
                else self.of_partition(partition=partition, **fields(outcome))
                for partition, outcome in each.items()
            )
            results.append((yield from call.room().encoding_with(head, "partitions", partitions)))
            yield None
        return self.whole(results=results)

    def refused(self, partition: int, error: KeptError) -> Struct:
        """Returns the result of a partition with an error."""
        return self.of_partition(
            partition=partition,
            error_code=error.code,
            error_message=error.message,
            **self.absent,
        )

    def fail(self, request: Any, code: ErrorCode, message: str) -> Any:
        """Returns the response with the same error for each partition (the `on_error` of a handler)."""
        error = KeptError(code, message)
        return self.whole(
            results=[
                self.of_topic(
                    topic_id=topic.topic_id,
                    partitions=[self.refused(item.partition, error) for item in topic.partitions],
                )
                for topic in request.topics
            ]
        )
