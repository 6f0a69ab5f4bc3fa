"""ListGroups (16): the groups that this broker coordinates.

Versions: 4 filters by state (KIP-518), 5 by type (KIP-848).
"""

from __future__ import annotations

from broker.handlers.context import Context
from wire.errors import KafkaError
from wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from wire.transport.calls import Call
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(ListGroupsRequest, versions="0-5", elements_max=FEW_ELEMENTS_MAX)
def list_groups(request: ListGroupsRequest, ctx: Context, _call: Call) -> ListGroupsResponse:
    try:
        groups = ctx.groups.list_groups(request.states_filter, request.types_filter)
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code, groups=[])
    return ListGroupsResponse(groups=groups)
