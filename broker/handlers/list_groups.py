"""ListGroups (16): the groups that this broker coordinates.

Versions: 4 filters by state (KIP-518), 5 by type (KIP-848).
"""

from __future__ import annotations

from broker.groups.coordinator import GROUPS_PER_STEP
from broker.handlers.context import Context
from node.runtime.turns import with_checkpoints
from wire.errors import KafkaError
from wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from wire.security.acls import Operation
from wire.transport.access import groups
from wire.transport.calls import Call
from wire.transport.heavy import ENCODED_AT_ONCE_MAX, FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    ListGroupsRequest,
    versions="0-5",
    access=groups(Operation.DESCRIBE, listed="groups.group_id").or_cluster(Operation.DESCRIBE),
    elements_max=FEW_ELEMENTS_MAX,
)
async def list_groups(request: ListGroupsRequest, ctx: Context, call: Call) -> ListGroupsResponse:
    await ctx.groups.wait_loaded()
    listing = ctx.groups.list_groups(request.states_filter, request.types_filter)
    try:
        groups = await with_checkpoints(listing, GROUPS_PER_STEP)
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code, groups=[])
    call.heavy = len(groups) > ENCODED_AT_ONCE_MAX
    return ListGroupsResponse(groups=groups)
