"""The rights to the topics that a member of a group subscribes to by name."""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.handlers.context import GroupContext
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Handling


def check_subscription(names: Iterable[str], ctx: GroupContext, call: Call) -> Handling[None]:
    """Raises KafkaError TOPIC_AUTHORIZATION_FAILED at the first topic that the client may not describe."""
    may_name = may_with_topic(ctx, call, Operation.DESCRIBE)
    for name in names:
        if not may_name(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield None
