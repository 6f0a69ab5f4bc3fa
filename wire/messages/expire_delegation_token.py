"""ExpireDelegationToken (40): shortens or ends the lifetime of a delegation token (KIP-48).

Versions: 2 flexible.
"""

from trimaran.wire.codec.declarations import data, int16, int32, int64
from trimaran.wire.schema import Message, request, response


@request(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest(Message):
    hmac: data
    expiry_time_period_ms: int64


@response(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    error_code: int16 = 0
    expiry_timestamp_ms: int64
    throttle_time_ms: int32 = 0
