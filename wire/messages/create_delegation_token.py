"""CreateDelegationToken (38): a user obtains a token for authentication (KIP-48).

Versions: 2 flexible; 3 for another owner (KIP-373).
"""

from trimaran.wire.codec.declarations import Struct, data, field, int16, int32, int64, string
from trimaran.wire.schema import Message, request, response


class CreatableRenewers(Struct):
    principal_type: string
    principal_name: string


@request(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    owner_principal_type: string | None = field("3+", default="")
    owner_principal_name: string | None = field("3+", default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: int64


@response(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    error_code: int16 = 0
    principal_type: string
    principal_name: string
    token_requester_principal_type: string = field("3+", default="")
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64
    max_timestamp_ms: int64
    token_id: string
    hmac: data
    throttle_time_ms: int32 = 0
