"""Ordinary requests to the active controller, each on its own connection, since old tools seldom send any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimaran.quorum.metadata.topic_names import METADATA_TOPIC
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.identity import Address, Offset
from trimaran.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.transport.client.node_connection import open_node_connection
from trimaran.zkcompat.legacy.requests.admin_requests import UndecidedError

CLIENT_ID = "zk-mirror-admin"
# Longer than any decision of a controller, but short enough for a waiting operator.
CALL_SECONDS = 30.0


class ControllerClient:
    """Sends requests to the active controller. `address` returns the leader's address, None while there is none."""

    def __init__(
        self, address: Callable[[], Address | None], security: ClientSecurity = PLAINTEXT
    ) -> None:
        self._address = address
        self._security = security

    async def call(self, request: Message) -> Any:
        """Returns the response. Raises UndecidedError: there is no response, and the request may have been carried
        out.
        """
        address = self._address()
        if address is None:
            raise UndecidedError("the quorum has no leader")
        try:
            async with open_node_connection(
                *address, client_id=CLIENT_ID, timeout=CALL_SECONDS, security=self._security
            ) as connection:
                return await connection.call(request, timeout=CALL_SECONDS)
        except (
            ConnectionLost,
            RequestTimedOut,
            RemoteProtocolError,
            VersionMismatch,
        ) as error:
            raise UndecidedError(f"controller at {Address(*address[:2])}: {error}") from error


async def committed_offset(controller: ControllerClient) -> Offset:
    """Returns the last committed offset of the metadata log. Raises UndecidedError."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    response = await controller.call(DescribeQuorumRequest(topics=[topic]))
    codes = [response.error_code, *(p.error_code for t in response.topics for p in t.partitions)]
    if any(codes):
        raise UndecidedError(f"DescribeQuorum: {ErrorCode.of(max(codes, key=abs)).name}")
    return Offset(response.topics[0].partitions[0].high_watermark) - 1
