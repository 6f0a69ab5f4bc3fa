"""The descriptions of the groups of one request, encoded one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from trimaran.broker.handlers.context import GroupContext
from trimaran.quorum.serving.authorized_operations import authorized_operations
from trimaran.wire.codec.declarations import EncodedArray, Struct
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.security.acls import ResourceType
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Handling


def described_groups(
    group_ids: Iterable[str],
    ctx: GroupContext,
    call: Call,
    describe: Callable[[str], tuple[Any, Iterable[Struct]]],
    refused: Callable[[str, ErrorCode, str], Struct],
    *,
    with_operations: bool,
) -> Handling[EncodedArray]:
    """Returns the groups of the response.

    Args:
        describe: returns a group without members, and an iterator of its members; both may raise KafkaError.
        refused: returns a group that carries only the error.
        with_operations: whether the client has requested its authorized operations.
    """
    found = EncodedArray()
    for group_id in group_ids:
        try:
            group, members = describe(group_id)
            if with_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    ctx, call, ResourceType.GROUP, group_id
                )
            found.append((yield from call.room().encoding_with(group, "members", members)))
        except KafkaError as error:
            found.append(call.room().refusal(refused(group_id, error.code, error.message)))
        yield None
    return found
