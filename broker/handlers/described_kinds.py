"""The frame of the requests that describe groups with their members: ConsumerGroupDescribe and similar ones.

The description of one group is consistent: the group does not change while it is described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from trimaran.broker.groups.kinds import GroupKind, GroupsOfKind
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.described_groups import described_groups
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.codec.declarations import EncodedArray, Struct
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Handling

G = TypeVar("G", bound=GroupsOfKind)
M = TypeVar("M", bound=Struct)

MaySee = Callable[[str], bool]

DESCRIBES_GROUPS = (
    groups(Operation.DESCRIBE, "group_ids.*", "groups"),
    topics(Operation.DESCRIBE, "group_ids.*").in_handler("a group with hidden topics is omitted"),
)
"""The access to such a request."""


class DescribeRequest(Protocol):
    """A request of this form."""

    group_ids: list[str]
    include_authorized_operations: bool


def described_of_kind(
    request: DescribeRequest,
    ctx: GroupContext,
    call: Call,
    kind: GroupKind[G],
    describe: Callable[[G, str, MaySee], tuple[Any, Iterable[Struct]]],
    refused: Callable[[str, ErrorCode, str], Struct],
) -> Handling[EncodedArray]:
    """Returns the groups of the response.

    Args:
        describe: returns a group without members, and an iterator of its members; both may raise KafkaError. Its last
            parameter returns whether the client may see a topic.
        refused: returns a group that carries only the error.
    """
    yield from loaded(ctx, request.group_ids)
    check_served(ctx, kind)

    def described(group_id: str) -> tuple[Any, Iterable[Struct]]:
        may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False)
        return describe(ctx.groups.groups_of(kind, group_id), group_id, may_see)

    with_operations = request.include_authorized_operations
    return (
        yield from described_groups(
            request.group_ids, ctx, call, described, refused, with_operations=with_operations
        )
    )


def visible_members(
    members: Iterable[M], may_see: MaySee, topics_of: Callable[[M], set[str]]
) -> Iterator[M]:
    """Yields the members. Raises KafkaError TOPIC_AUTHORIZATION_FAILED at the first one with a topic that the client
    may not see.
    """
    for member in members:
        if not all(map(may_see, topics_of(member))):
            raise KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "The group has described topic(s) that the client is not authorized to describe.",
            )
        yield member
