"""BrokerRegistration (62): assigns an epoch to a broker that starts.

Another process with the same id is refused while the registered one must be assumed alive. That assumption ends when
its connection has closed and the new process claims the same addresses. Not implemented: migration from ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps, pieces
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.nodes.brokers import (
    ProcessedPartitions,
    changes_of_new_incarnation,
    check_registration,
    partitions_of_old_incarnation,
    register_broker,
    same_endpoints,
)
from trimaran.quorum.controller.partitions.broker_changes import in_steps
from trimaran.quorum.controller.partitions.index import PARTITIONS_PER_STEP
from trimaran.quorum.metadata.image import BrokerRegistration
from trimaran.wire.identity import BrokerEpoch, TopicIdPartition
from trimaran.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Handling, Wait


@handles(
    BrokerRegistrationRequest,
    versions="0-4",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def broker_registration(
    request: BrokerRegistrationRequest, ctx: ControllerContext, _call: Call
) -> Handling[BrokerRegistrationResponse]:
    active = ctx.controller.active()
    # The partitions of the old incarnation are given up in batches, the last one together with the registration. If a
    # submit fails, the broker receives the error and sends the request again.
    decided = ProcessedPartitions()

    def leave(keys: Sequence[TopicIdPartition]) -> Steps[None]:
        _check(request, ctx.cluster_id, active)
        change = partial(changes_of_new_incarnation, request, active.state)
        records = yield from in_steps(keys, change)
        yield from active.write(Result(records, None, atomic=False))
        decided.note(active.state, keys)

    def register() -> Steps[BrokerRegistrationResponse | list[TopicIdPartition]]:
        known = _check(request, ctx.cluster_id, active)
        left = partitions_of_old_incarnation(request, active.state, decided)
        if len(left) > PARTITIONS_PER_STEP:
            return left
        result = register_broker(
            request, active.state, broker_epoch=BrokerEpoch(active.next_offset), keys=left
        )
        response = yield from active.write(result)
        if known is None or result.response.broker_epoch != known.epoch:
            active.leases.end(request.broker_id)
        return response

    while True:
        registering = active.submit(register())
        left: BrokerRegistrationResponse | list[TopicIdPartition] = yield Blocking(
            registering.decided
        )
        if isinstance(left, BrokerRegistrationResponse):
            yield Wait(registering.wait, registering.ready)
            return left
        for keys in pieces(left, PARTITIONS_PER_STEP):
            yield Blocking(active.submit(leave(keys)).decided)


def _check(
    request: BrokerRegistrationRequest, cluster_id: str, active: ActiveController
) -> BrokerRegistration | None:
    """Returns the broker's present registration. Raises KafkaError as `check_registration` does."""
    alive = _other_is_alive(request, active)
    check_registration(request, active.image, cluster_id=cluster_id, other_is_alive=alive)
    return active.image.cluster.brokers.get(request.broker_id)


def _other_is_alive(request: BrokerRegistrationRequest, active: ActiveController) -> bool:
    known = active.image.cluster.brokers.get(request.broker_id)
    if known is None or not active.leases.is_valid(known, trio.current_time()):
        return False
    lease = active.leases.get(known.id, known.epoch)
    assert lease is not None
    return not (lease.disconnected and same_endpoints(known, request))
