"""RenewDelegationToken (39): extends the lifetime of a delegation token (KIP-48).

Versions: 2 flexible.
"""

from trimaran.wire.codec.declarations import data, int16, int32, int64
from trimaran.wire.schema import Message, request, response


@request(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    hmac: data
    renew_period_ms: int64


@response(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    error_code: int16 = 0
    expiry_timestamp_ms: int64
    throttle_time_ms: int32 = 0
