"""BrokerHeartbeat (63): keeps a broker's lease with the controller and changes its state (KIP-631).

Versions: 1 offline log directories (KIP-858); 2 cordoned log directories (KIP-1066).
"""

from trimaran.wire.codec.declarations import (
    boolean,
    field,
    int16,
    int32,
    int32_broker_id,
    int64_broker_epoch,
    int64_offset,
    uuid,
)
from trimaran.wire.identity import BrokerEpoch
from trimaran.wire.schema import Message, request, response


@request(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest(Message):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch = BrokerEpoch(-1)
    current_metadata_offset: int64_offset
    want_fence: boolean
    want_shut_down: boolean
    offline_log_dirs: list[uuid] = field("1+", factory=list, tag=0)
    cordoned_log_dirs: list[uuid] | None = field("2+", default=None, tag=1)


@response(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: boolean = False
    is_fenced: boolean = True
    should_shut_down: boolean
