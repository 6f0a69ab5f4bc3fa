"""AssignReplicasToDirs (73): records the log directory of each replica of a broker (KIP-858)."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.nodes.directories import assign_replicas
from trimaran.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    AssignReplicasToDirsRequest,
    versions="0",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, ctx: ControllerContext, _call: Call
) -> Handling[AssignReplicasToDirsResponse]:
    return ctx.controller.submit(lambda active: assign_replicas(request, active.state))
