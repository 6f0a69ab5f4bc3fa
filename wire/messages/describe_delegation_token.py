"""DescribeDelegationToken (41): lists delegation tokens by owner (KIP-48).

Versions: 2 flexible; 3 the requester of the token (KIP-373).
"""

from trimaran.wire.codec.declarations import Struct, data, field, int16, int32, int64, string
from trimaran.wire.schema import Message, request, response


class DescribeDelegationTokenOwner(Struct):
    principal_type: string
    principal_name: string


@request(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    owners: list[DescribeDelegationTokenOwner] | None


class DescribedDelegationTokenRenewer(Struct):
    principal_type: string
    principal_name: string


class DescribedDelegationToken(Struct):
    principal_type: string
    principal_name: string
    token_requester_principal_type: string = field("3+", default="")
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: string
    hmac: data
    renewers: list[DescribedDelegationTokenRenewer]


@response(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    error_code: int16 = 0
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: int32 = 0
