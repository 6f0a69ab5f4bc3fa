"""AssignReplicasToDirs (73): a broker of several log directories says where its replicas are (KIP-858)."""

from __future__ import annotations

from quorum.controller.context import ControllerContext
from quorum.controller.directories import assign_replicas
from wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(AssignReplicasToDirsRequest, versions="0")
def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, ctx: ControllerContext, _call: Call
) -> Parked[AssignReplicasToDirsResponse]:
    return ctx.controller.submit(lambda active: assign_replicas(request, active.state))
