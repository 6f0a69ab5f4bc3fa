"""Responses of share and streams groups to requests that are refused as a whole without a message: they contain the
standard message of the code.
"""

from __future__ import annotations

import pytest

from trimaran.broker.handlers.alter_share_group_offsets import alter_share_group_offsets
from trimaran.broker.handlers.delete_share_group_offsets import delete_share_group_offsets
from trimaran.broker.handlers.share_acknowledge import share_acknowledge
from trimaran.broker.handlers.share_fetch import share_fetch
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.broker.handlers.streams_group_heartbeat import streams_group_heartbeat
from trimaran.broker.handlers.streams_group_topology_description_update import (
    streams_group_topology_description_update,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from trimaran.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from trimaran.wire.messages.share_fetch import ShareFetchResponse
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from trimaran.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from trimaran.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from trimaran.wire.transport.requests.handles import declaration_of

REFUSALS = [
    (alter_share_group_offsets, AlterShareGroupOffsetsResponse, {"responses": []}),
    (delete_share_group_offsets, DeleteShareGroupOffsetsResponse, {"responses": []}),
    (share_acknowledge, ShareAcknowledgeResponse, {"responses": [], "node_endpoints": []}),
    (share_fetch, ShareFetchResponse, {"responses": [], "node_endpoints": []}),
    (
        share_group_heartbeat,
        ShareGroupHeartbeatResponse,
        {"member_epoch": 0, "heartbeat_interval_ms": 0},
    ),
    (
        streams_group_heartbeat,
        StreamsGroupHeartbeatResponse,
        {
            "member_id": "",
            "member_epoch": 0,
            "heartbeat_interval_ms": 0,
            "task_offset_interval_ms": 0,
            "status": [],
            "endpoint_information_epoch": 0,
        },
    ),
    (streams_group_topology_description_update, StreamsGroupTopologyDescriptionUpdateResponse, {}),
]


@pytest.mark.parametrize(
    ("handler", "response", "empty"), REFUSALS, ids=[each[0].__name__ for each in REFUSALS]
)
def test_refusal_has_message_of_its_code(handler, response, empty):
    refuse, code = declaration_of(handler).on_error, ErrorCode.NOT_COORDINATOR
    for message, words in (("", code.sentence), ("why", "why")):
        found = refuse(None, code, message)
        assert found == response(error_code=code, error_message=words, **empty)
