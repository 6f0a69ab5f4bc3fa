"""BrokerHeartbeat (63): extends a broker's lease, fences and unfences the broker, lets it shut down (KIP-631).

    fenced → unfenced → controlled shutdown → (fenced) gone

A broker is unfenced when it has applied its own registration. It may shut down when it leads no partition and all
brokers have applied that. A heartbeat also names the log directories that have failed
(`broker/process/failed_directories.py`) or are cordoned (KIP-858, KIP-1066). Source: Kafka's `BrokerHeartbeatManager`,
`ReplicationControlManager.processBrokerHeartbeat`, KIP-841.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice

import trio

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.nodes.brokers import (
    UNFENCE,
    fence_broker,
    registration_change,
)
from trimaran.quorum.controller.nodes.directories import names_directories
from trimaran.quorum.controller.nodes.leases import Lease
from trimaran.quorum.controller.partitions.broker_changes import (
    changes_of_offline_directories,
    changes_with,
    check_broker_epoch,
    in_steps,
    leads_any,
    taken_out,
)
from trimaran.quorum.controller.partitions.index import PARTITIONS_PER_STEP
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.image import BrokerRegistration
from trimaran.wire.identity import NO_OFFSET, Offset
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from trimaran.wire.records.brokers import BrokerRegistrationChangeRecord
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

ENTER_CONTROLLED_SHUTDOWN = 1


@handles(
    BrokerHeartbeatRequest,
    versions="0-2",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def broker_heartbeat(
    request: BrokerHeartbeatRequest, ctx: ControllerContext, call: Call
) -> Handling[BrokerHeartbeatResponse]:
    _extend(request, ctx.controller.active())  # a broker that waits for its response is also alive
    return ctx.controller.submit_operation(partial(_beat, request, ctx, call))


def _extend(request: BrokerHeartbeatRequest, active: ActiveController) -> Lease:
    check_broker_epoch(active.image, request.broker_id, request.broker_epoch)
    return active.leases.extend(request.broker_id, request.broker_epoch, trio.current_time())


def _beat(
    request: BrokerHeartbeatRequest, ctx: ControllerContext, call: Call, active: ActiveController
) -> Steps[BrokerHeartbeatResponse]:
    lease, image = _extend(request, active), active.image
    result = yield from heartbeat(
        request,
        active.state,
        lease,
        registered_at=active.registered_at(image.cluster.brokers[request.broker_id]),
        lowest_active_offset=active.leases.lowest_active_offset(image),
    )
    reply = result.response
    response = BrokerHeartbeatResponse(
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )
    yield from active.write(Result(result.records, response, atomic=False))
    lease.metadata_offset = request.current_metadata_offset
    if reply.is_fenced:
        lease.shutdown_offset, lease.draining = NO_OFFSET, False
    elif reply.shutting_down and lease.shutdown_offset < 0:
        lease.shutdown_offset = active.next_offset - 1
        lease.draining = True
        active.draining.set()
    elif result.records and active.state.index.leaderless:
        active.leaders_wanted.set()  # the task elects leaders for partitions beyond this step's limit
    if reply.should_shut_down:
        active.leases.end(request.broker_id)  # the broker may return immediately
    else:
        ctx.controller.watch(call.connection, request.broker_id, request.broker_epoch)
    return response


# --- the decision


class BrokerControlState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The decision about the broker. `shutting_down`: the offset of its records must be noted, see `Lease`."""

    is_caught_up: bool
    state: BrokerControlState

    @property
    def is_fenced(self) -> bool:
        return self.state in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)

    @property
    def should_shut_down(self) -> bool:
        return self.state is BrokerControlState.SHUTDOWN_NOW

    @property
    def shutting_down(self) -> bool:
        return self.state is BrokerControlState.CONTROLLED_SHUTDOWN


def heartbeat(
    request: BrokerHeartbeatRequest,
    state: ControllerState,
    lease: Lease,
    *,
    registered_at: int,
    lowest_active_offset: Offset | None,
) -> Steps[Result[Message, HeartbeatResult]]:
    """Moves the broker to its next state, in steps of many partitions; `registered_at` is the offset of its
    registration.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    check_broker_epoch(state.image, request.broker_id, request.broker_epoch)
    broker = state.image.cluster.brokers[request.broker_id]
    caught_up = request.current_metadata_offset >= registered_at
    present = _present_state(broker, lease)
    match present:
        case BrokerControlState.FENCED:
            following = _next_of_fenced(request, caught_up)
        case BrokerControlState.UNFENCED:
            following = _next_of_unfenced(request, state)
        case _:
            following = _next_in_shutdown(state, lease, lowest_active_offset)
    lost: list[Message] = []
    if names_directories(state.image):
        failed = set(request.offline_log_dirs)
        lost = yield from changes_of_offline_directories(state, broker, failed)
    if lost and following is BrokerControlState.UNFENCED:
        following = present  # the next heartbeat unfences it, with these directories recorded
    records: list[Message] = []
    if following is not present:
        records += yield from _transition(following, broker, state)
    records += lost
    if state.image.features.metadata_version >= versions.CORDONED_LOG_DIRS:
        records += _changes_of_cordons(request, broker)
    return Result(records, HeartbeatResult(caught_up, following), atomic=False)


def _present_state(broker: BrokerRegistration, lease: Lease) -> BrokerControlState:
    if lease.shutdown_offset >= 0 and not broker.fenced:
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.FENCED if broker.fenced else BrokerControlState.UNFENCED


def _next_of_fenced(request: BrokerHeartbeatRequest, caught_up: bool) -> BrokerControlState:
    if request.want_shut_down:
        return BrokerControlState.SHUTDOWN_NOW
    return (
        BrokerControlState.UNFENCED
        if caught_up and not request.want_fence
        else BrokerControlState.FENCED
    )


def _next_of_unfenced(
    request: BrokerHeartbeatRequest, state: ControllerState
) -> BrokerControlState:
    if request.want_shut_down:
        little = len(state.index.in_sync(request.broker_id)) <= PARTITIONS_PER_STEP
        at_once = request.want_fence or (little and not leads_any(state, request.broker_id))
        return (
            BrokerControlState.SHUTDOWN_NOW if at_once else BrokerControlState.CONTROLLED_SHUTDOWN
        )
    return BrokerControlState.FENCED if request.want_fence else BrokerControlState.UNFENCED


def _next_in_shutdown(
    state: ControllerState, lease: Lease, lowest: int | None
) -> BrokerControlState:
    """Returns SHUTDOWN_NOW once the broker leads no partition and every active broker has applied that."""
    if lease.draining or leads_any(state, lease.broker_id):
        return BrokerControlState.CONTROLLED_SHUTDOWN
    everybody_knows = lowest is None or lease.shutdown_offset <= lowest
    return (
        BrokerControlState.SHUTDOWN_NOW
        if everybody_knows
        else BrokerControlState.CONTROLLED_SHUTDOWN
    )


def _transition(
    following: BrokerControlState, broker: BrokerRegistration, state: ControllerState
) -> Steps[list[Message]]:
    """Returns the records of the transition. If fencing ends or a shutdown begins, these are the first batch, and the
    controller continues with the rest.
    """
    match following:
        case BrokerControlState.FENCED | BrokerControlState.SHUTDOWN_NOW:
            if broker.fenced:
                return []
            return (yield from fence_broker(state, broker))
        case BrokerControlState.UNFENCED:
            first = list(islice(state.index.leaderless, PARTITIONS_PER_STEP))
            led = yield from in_steps(first, lambda keys: changes_with(state, broker.id, keys))
            return [registration_change(broker, fenced=UNFENCE), *led]
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            entered: list[Message] = []
            if not broker.in_controlled_shutdown:
                entered.append(
                    registration_change(broker, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN)
                )
            first = list(islice(state.index.in_sync(broker.id), PARTITIONS_PER_STEP))
            return [*entered, *(yield from taken_out(state, broker.id, keys=first))]


def _changes_of_cordons(
    request: BrokerHeartbeatRequest, broker: BrokerRegistration
) -> list[Message]:
    """Returns the change of the directories that take no new replicas, if there is one."""
    if request.cordoned_log_dirs is None:
        return []
    wanted, known = set(request.cordoned_log_dirs), broker.cordoned_directories
    cordoned = [directory for directory in broker.directories if directory in wanted]
    if known is not None and set(cordoned) == set(known):
        return []
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=cordoned
    )
    return [record]
