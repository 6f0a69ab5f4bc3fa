"""BrokerRegistration (62): a broker that starts gets its epoch.

Another process with the same id is refused while the registered one must be taken to be alive. It need not be once its
connection is closed and the new one says that it listens at the same addresses. Not done: migration from ZooKeeper.
"""

from __future__ import annotations

import trio

from quorum.controller.brokers import register_broker, same_endpoints
from quorum.controller.context import ControllerContext
from quorum.controller.reign import Reign
from wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(BrokerRegistrationRequest, versions="0-4")
def broker_registration(
    request: BrokerRegistrationRequest, ctx: ControllerContext, _call: Call
) -> Parked[BrokerRegistrationResponse]:
    reign = ctx.controller.reign()
    known = reign.image.cluster.brokers.get(request.broker_id)
    result = register_broker(
        request,
        reign.image,
        cluster_id=ctx.cluster_id,
        broker_epoch=reign.next_offset,
        other_is_alive=_other_is_alive(request, reign),
    )
    parked = ctx.controller.submit(result)
    if known is None or result.response.broker_epoch != known.epoch:
        reign.leases.end(request.broker_id)
    return parked


def _other_is_alive(request: BrokerRegistrationRequest, reign: Reign) -> bool:
    known = reign.image.cluster.brokers.get(request.broker_id)
    if known is None or not reign.leases.is_valid(known, trio.current_time()):
        return False
    lease = reign.leases.get(known.id, known.epoch)
    assert lease is not None
    return not (lease.orphaned and same_endpoints(known, request))
