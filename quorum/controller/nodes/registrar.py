"""Registers this controller with the active one whenever the metadata lacks its current registration (KIP-919).

Source: Kafka's `ControllerRegistrationManager`. The active controller registers with itself in the same way, over the
wire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import trio

from trimaran.node.runtime.latest import Latest
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.features import REGISTERED_FEATURES
from trimaran.quorum.metadata.image import ControllerRegistration, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.raft.listener import LeaderAndEpoch
from trimaran.quorum.replica.peers import CALL_ERRORS
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.identity import Address, NodeId
from trimaran.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.client.node_connection import open_node_connection

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0
PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 5.0

AddressOf = Callable[[NodeId], Address | None]


class Registrar:
    """A publisher that compares each image with this controller's registration; `address_of` finds a controller."""

    def __init__(
        self,
        node_id: NodeId,
        incarnation_id: bytes,
        endpoints: Sequence[Endpoint],
        leader: Latest[LeaderAndEpoch],
        address_of: AddressOf,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self._security = security
        self._wanted = ControllerRegistration(
            id=node_id,
            incarnation_id=incarnation_id,
            zk_migration_ready=False,
            listeners=tuple(endpoints),
            features=REGISTERED_FEATURES,
        )
        self._leader = leader
        self._address_of = address_of
        # The registration in the metadata; `_wanted` while metadata.version has no records of registrations.
        self._known: Latest[ControllerRegistration | None] = Latest(self._wanted)

    def publish(self, _delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        if image.features.metadata_version >= versions.CONTROLLER_REGISTRATION:
            known = image.cluster.controllers.get(self._wanted.id)
            if known is not self._known.value:
                self._known.set(known)

    async def run(self) -> None:
        """Registers this controller whenever necessary, until cancelled."""
        while True:
            await self._known.wait_for(lambda known: known != self._wanted)
            backoff = ExponentialBackoff(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
            while self._known.value != self._wanted:
                leader = await self._leader.wait_for(lambda value: value.leader_id is not None)
                registered = await self._register(leader)
                pause = TIMEOUT_SECONDS if registered else backoff.failed()
                with trio.move_on_after(pause):
                    await self._known.wait_for(lambda known: known == self._wanted)

    async def _register(self, leader: LeaderAndEpoch) -> bool:
        assert leader.leader_id is not None
        address = self._address_of(leader.leader_id)
        if address is None:
            return False
        try:
            async with open_node_connection(
                *address, client_id="registration", security=self._security
            ) as connection:
                response = await connection.call(self._request(), timeout=TIMEOUT_SECONDS)
        except CALL_ERRORS as error:
            log.debug("not registered with controller %d: %s", leader.leader_id, error)
            return False
        assert isinstance(response, ControllerRegistrationResponse)
        if response.error_code:
            log.debug("controller %d refused: %s", leader.leader_id, response.error_message)
        return not response.error_code

    def _request(self) -> ControllerRegistrationRequest:
        wanted = self._wanted
        return ControllerRegistrationRequest(
            controller_id=wanted.id,
            incarnation_id=wanted.incarnation_id,
            zk_migration_ready=False,
            listeners=[
                Listener(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in wanted.listeners
            ],
            features=[
                Feature(
                    name=feature.name,
                    min_supported_version=feature.min_level,
                    max_supported_version=feature.max_level,
                )
                for feature in wanted.features
            ],
        )
