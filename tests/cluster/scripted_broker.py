"""A broker made of the requests that a test sends to the active controller."""

from __future__ import annotations

import socket

from tests.cluster.nodes import CLUSTER_ID, SECONDS
from tests.quorum.metadata.build import uid
from trimaran.quorum.metadata.features import REGISTERED_FEATURES
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from trimaran.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from trimaran.wire.transport.client.node_connection import NodeConnection


class ScriptedBroker:
    """One incarnation of a broker as the controller sees it; `socket` is the address that it registers."""

    def __init__(self, connection: NodeConnection, broker_id: int, *, incarnation: int = 0) -> None:
        self.connection = connection
        self.id = broker_id
        self.epoch = -1
        self.incarnation_id = uid(10_000 * (incarnation + 1) + broker_id)
        self.socket = _listen(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    async def register(self, **changes) -> int:
        """Registers the broker and returns the error code."""
        values = {
            "broker_id": self.id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self.incarnation_id,
            "listeners": [
                Listener(name="PLAINTEXT", host="127.0.0.1", port=self.port, security_protocol=0)
            ],
            "features": [
                Feature(
                    name=registered_feature.name,
                    min_supported_version=registered_feature.min_level,
                    max_supported_version=registered_feature.max_level,
                )
                for registered_feature in REGISTERED_FEATURES
            ],
            "rack": None,
            "log_dirs": [uid(500 + self.id)],
        }
        response: BrokerRegistrationResponse = await self.connection.call(
            BrokerRegistrationRequest(**(values | changes)), timeout=SECONDS
        )
        self.epoch = response.broker_epoch if not response.error_code else self.epoch
        return response.error_code

    async def beat(self, **wishes) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=wishes.pop("offset", 1 << 40),
            want_fence=wishes.pop("want_fence", False),
            want_shut_down=wishes.pop("want_shut_down", False),
        )
        return await self.connection.call(request, timeout=SECONDS)

    async def join(self) -> None:
        assert await self.register() == 0
        answer = await self.beat()
        assert (answer.error_code, answer.is_fenced) == (0, False)


def _listen(address: tuple[str, int]) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(address)
    found.listen()
    found.setblocking(False)
    return found
