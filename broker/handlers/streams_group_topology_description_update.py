"""StreamsGroupTopologyDescriptionUpdate (93): a member describes the topology of its group (KIP-1331).

Apache Kafka gives the description to a plug-in class, and answers UNSUPPORTED_VERSION without one. Here the coordinator
of the group keeps the description in memory, and the next coordinator requests it from a member again.
"""

from __future__ import annotations

from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.descriptions import check_description_request
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.served_kinds import check_served
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(
    _request: StreamsGroupTopologyDescriptionUpdateRequest, code: ErrorCode, message: str
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=code, error_message=message or code.sentence
    )


@handles(
    StreamsGroupTopologyDescriptionUpdateRequest,
    versions="0",
    access=groups(Operation.READ, "group_id"),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def streams_group_topology_description_update(
    request: StreamsGroupTopologyDescriptionUpdateRequest, ctx: GroupContext, _call: Call
) -> Handling[StreamsGroupTopologyDescriptionUpdateResponse]:
    yield from loaded(ctx, (request.group_id,))
    check_served(ctx, streams.KIND)
    check_description_request(request)
    ctx.groups.groups_of(streams.KIND, request.group_id).describe_topology(request)
    return StreamsGroupTopologyDescriptionUpdateResponse()
