"""ListGroups (16): lists the groups that this broker coordinates.

Versions: 4 a filter by state (KIP-518), 5 a filter by type (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable

from trimaran.broker.groups.coordinator import GROUPS_PER_STEP
from trimaran.broker.handlers.context import GroupContext
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import everybody, may, may_with
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.memory.room import JUDGED_WORK, OBJECT_BYTES
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling, Wait


@handles(
    ListGroupsRequest,
    versions="0-5",
    access=groups(Operation.DESCRIBE, listed="groups.group_id")
    .or_cluster(Operation.DESCRIBE)
    .in_handler("before the response is encoded"),
    elements_max=FEW_ELEMENTS_MAX,
)
def list_groups(
    request: ListGroupsRequest, ctx: GroupContext, call: Call
) -> Handling[ListGroupsResponse]:
    yield Wait(ctx.groups.wait_loaded)
    may_see, room = _may_see(ctx, call), call.room()
    found = EncodedArray()
    try:
        room.expect(GROUPS_PER_STEP * OBJECT_BYTES)
        yield None
        for some in ctx.groups.list_groups(request.states_filter, request.types_filter):
            for group in some:
                if may_see(group.group_id):
                    found.append(room.encoded(group))
                room.worked(JUDGED_WORK)
                yield None
            room.expect(GROUPS_PER_STEP * OBJECT_BYTES)
            yield None
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code, groups=[])
    return ListGroupsResponse(groups=found)


def _may_see(ctx: GroupContext, call: Call) -> Callable[[str], bool]:
    if may(ctx, call, Action(Operation.DESCRIBE), asked_for=False):
        return everybody
    return may_with(ctx, call, Operation.DESCRIBE, ResourceType.GROUP, asked_for=False)
