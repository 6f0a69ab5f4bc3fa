"""This broker's state at the controller: registration, heartbeats, fencing, controlled shutdown.

Source: `BrokerLifecycleManager` of Kafka, KIP-631, KIP-841, KIP-966 (the registration has the epoch of a clean
shutdown). Every step is taken as soon as possible; the heartbeat interval only bounds the time without a heartbeat.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import trio

from trimaran.broker import events
from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.node.runtime.latest import Latest
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import FeatureRange, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from trimaran.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.scheduling.events import AutoResetEvent

log = logging.getLogger(__name__)

# The delay between two attempts while the controller is not ready.
PAUSE_SECONDS = 0.02
PAUSE_SECONDS_MAX = 0.5
# The number of failures during the shutdown of the broker after which the controller is assumed to be stopped, too: the
# whole cluster is being stopped.
LEAVE_SECONDS = 1.5
LEAVE_ATTEMPTS = 2


class RegistrationRefused(Exception):
    """The controller refused this broker, or did not respond within initial.broker.registration.timeout.ms."""


class BrokerState(Enum):
    """The states of Kafka's `BrokerState`, in the same order."""

    STARTING = "starting"
    RECOVERY = "recovery"  # registered, fenced until caught up with the metadata
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The data of the broker's registration."""

    node_id: BrokerId
    cluster_id: str
    listeners: Sequence[Endpoint]
    features: Sequence[FeatureRange]
    rack: str | None
    directory_ids: Sequence[bytes]
    previous_broker_epoch: BrokerEpoch  # -1 unless the last shutdown was clean


@dataclass(frozen=True, slots=True)
class LifecycleTimes:
    """The times in seconds: Kafka's broker.heartbeat.interval.ms, broker.session.timeout.ms,
    initial.broker.registration.timeout.ms.
    """

    heartbeat: float = 2.0
    session: float = 9.0
    registration: float = 60.0


class Lifecycle:
    """The broker's registration and heartbeats. `applied_offset` returns the last metadata offset in the broker's
    image, or -1. `unsupported_levels` returns as text the finalized features of that image that this broker does not
    support: the controller refuses such a broker with a code that does not name the features. `cordoned_directories`
    returns None while the cluster's `metadata.version` does not support cordons.

    `epoch` is the broker epoch, -1 before registration.
    """

    def __init__(
        self,
        controller: ControllerCalls,
        identity: BrokerIdentity,
        times: LifecycleTimes,
        applied_offset: Callable[[], Offset],
        offline_directories: Callable[[], list[bytes]] = list,
        unsupported_levels: Callable[[], str] = str,
        cordoned_directories: Callable[[], list[bytes] | None] = lambda: None,
    ) -> None:
        self.state = Latest(BrokerState.STARTING)
        self.epoch = NO_BROKER_EPOCH
        self.incarnation_id = os.urandom(16)
        self._controller = controller
        self._identity = identity
        self._times = times
        self._applied_offset = applied_offset
        self._offline_directories = offline_directories
        self._unsupported_levels = unsupported_levels
        self._cordoned_directories = cordoned_directories
        self._ready_to_unfence = False
        self._must_register = True
        self._wanted = AutoResetEvent()
        self._may_stop = trio.Event()
        self._let_go = False
        self._leave_failures = 0

    async def run(self) -> None:
        """Registers, then sends heartbeats until the controller allows the broker to stop.

        Raises:
            RegistrationRefused: the broker cannot serve and must stop.
        """
        while not self._may_stop.is_set():
            if self._must_register:
                self._must_register = False
                await self._register(self._times.registration)
            pause = await self._heartbeat()
            with trio.move_on_after(pause):
                await self._wanted.wait()

    def unfence(self) -> None:
        """Requests that the broker be unfenced, because the image is up to date and the logs are recovered."""
        self._ready_to_unfence = True
        self._wanted.set()

    def register_again(self) -> None:
        """Registers again with the same incarnation and epoch, because the controller may now store more fields of the
        registration.
        """
        self._must_register = True
        self._wanted.set()

    def report(self) -> None:
        """Sends a heartbeat now, which names the failed log directories."""
        self._wanted.set()

    async def shut_down(self, seconds: float) -> bool:
        """Requests a controlled shutdown, which moves all leaderships; returns whether it was granted within
        `seconds`.
        """
        if self.state.value in (BrokerState.STARTING, BrokerState.SHUTTING_DOWN):
            return False
        self.state.set(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        self._wanted.set()
        with trio.move_on_after(seconds):
            await self._may_stop.wait()
        self.state.set(BrokerState.SHUTTING_DOWN)
        return self._let_go

    # -- registration

    async def _register(self, seconds: float) -> None:
        backoff = ExponentialBackoff(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        last = "no answer"
        with trio.move_on_after(seconds):
            while True:
                try:
                    code, epoch = await self._ask_registration(seconds)
                except KafkaError as error:
                    last = str(error)
                    continue
                if code is ErrorCode.NONE and epoch >= 0:
                    self.epoch = epoch
                    node_id = self._identity.node_id
                    events.BROKER_REGISTERED.log(log, broker=node_id, epoch=epoch)
                    if self.state.value is BrokerState.STARTING:
                        self.state.set(BrokerState.RECOVERY)
                    return
                reason = self._reason_of(code)
                if last != reason:  # each reason is logged once
                    events.BROKER_REFUSED.log(log, reason=reason)
                last = reason
                if code is ErrorCode.INCONSISTENT_CLUSTER_ID:
                    break
                await trio.sleep(backoff.failed())
        raise RegistrationRefused(f"the controller did not register this broker: {last}")

    def _reason_of(self, code: ErrorCode) -> str:
        if code is ErrorCode.NONE:
            return "the answer has no broker epoch"
        lacking = self._unsupported_levels() if code is ErrorCode.UNSUPPORTED_VERSION else ""
        if not lacking:
            return code.name
        return (
            f"{code.name}: the cluster has finalized {lacking}; upgrade trimaran, or lower the level with "
            "`kafka-features downgrade --feature NAME=LEVEL` where Apache Kafka allows it (seldom metadata.version), "
            "or format a new cluster with `--release-version` or `--feature NAME=LEVEL`"
        )

    async def _ask_registration(self, seconds: float) -> tuple[ErrorCode, BrokerEpoch]:
        identity = self._identity
        request = BrokerRegistrationRequest(
            broker_id=identity.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                Listener(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.security_protocol,
                )
                for endpoint in identity.listeners
            ],
            features=[
                Feature(
                    name=feature.name,
                    min_supported_version=feature.min_level,
                    max_supported_version=feature.max_level,
                )
                for feature in identity.features
            ],
            rack=identity.rack,
            log_dirs=[
                directory_id
                for directory_id in identity.directory_ids
                if directory_id not in self._offline_directories()
            ],
            previous_broker_epoch=identity.previous_broker_epoch,
        )
        response = await self._controller.call(request, timeout=seconds)
        assert isinstance(response, BrokerRegistrationResponse)
        return ErrorCode.of(response.error_code), response.broker_epoch

    # -- heartbeats

    @property
    def _is_caught_up(self) -> bool:
        """Whether the broker has applied its own registration: configs before that may be outdated."""
        return 0 <= self.epoch <= self._applied_offset()

    async def _heartbeat(self) -> float:
        """Sends one heartbeat; returns the maximum time until the next one, in seconds."""
        # Also true after the shutdown was granted: a heartbeat without requests would unfence the broker again.
        leaving = self.state.value in (
            BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            BrokerState.SHUTTING_DOWN,
        )
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._applied_offset(),
            want_fence=not self._ready_to_unfence,
            want_shut_down=leaving,
            offline_log_dirs=self._offline_directories(),
            cordoned_log_dirs=self._cordoned_directories() if self._is_caught_up else None,
        )
        try:
            response = await self._controller.call(
                request, timeout=LEAVE_SECONDS if leaving else self._times.session / 2
            )
        except KafkaError as error:
            events.HEARTBEAT_FAILED.log(log, error=error)
            self._leave_failures += leaving
            if self._leave_failures >= LEAVE_ATTEMPTS:
                self._may_stop.set()
            return PAUSE_SECONDS
        assert isinstance(response, BrokerHeartbeatResponse)
        if response.error_code:
            return await self._refused(ErrorCode.of(response.error_code))
        return self._answered(response, request)

    async def _refused(self, code: ErrorCode) -> float:
        if code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            # The controller has dropped this incarnation, or does not have it yet after a change of controller.
            events.BROKER_FENCED.log(log, error=code.name)
            self._must_register = True
            return PAUSE_SECONDS
        events.BROKER_HEARTBEAT_REFUSED.log(log, error=code.name)
        return PAUSE_SECONDS_MAX

    def _answered(
        self, response: BrokerHeartbeatResponse, request: BrokerHeartbeatRequest
    ) -> float:
        if request.want_shut_down:
            if response.should_shut_down:
                self._let_go = True
                self._may_stop.set()
                return self._times.heartbeat
            return PAUSE_SECONDS
        if self.state.value is BrokerState.RECOVERY and not response.is_fenced:
            self.state.set(BrokerState.RUNNING)
            events.BROKER_READY.log(log, broker=self._identity.node_id)
        if response.is_fenced and self._ready_to_unfence:
            return PAUSE_SECONDS  # fenced, or not known to have caught up: retry soon
        return self._times.heartbeat


class RegistrationTracker:
    """A `Publisher` that registers the broker again, with the same incarnation, once the cluster can store its log
    directories. `register_again` is called once for each image that supports directories and lacks the broker's.

    Below metadata.version 3.7-IV2 registrations have no directories, and the failure of a directory unknown to the
    controller has no effect. Source: Kafka's `BrokerRegistrationTracker`, KIP-858.
    """

    def __init__(self, node_id: BrokerId, register_again: Callable[[], None]) -> None:
        self._node_id = node_id
        self._register_again = register_again

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        registered = image.cluster.brokers.get(self._node_id)
        has_changed = (
            delta.features.metadata_version is not None
            or self._node_id in delta.cluster.changed_brokers
        )
        is_supported = image.features.metadata_version >= versions.DIRECTORY_ASSIGNMENT
        if has_changed and is_supported and registered is not None and not registered.directories:
            self._register_again()
