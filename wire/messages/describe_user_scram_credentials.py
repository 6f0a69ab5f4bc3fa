"""DescribeUserScramCredentials (50): lists the SCRAM credentials of users, without secrets (KIP-554)."""

from trimaran.wire.codec.declarations import Struct, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class UserName(Struct):
    name: string


@request(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    users: list[UserName] | None


class CredentialInfo(Struct):
    mechanism: int8
    iterations: int32


class DescribeUserScramCredentialsResult(Struct):
    user: string
    error_code: int16 = 0
    error_message: string | None = None
    credential_infos: list[CredentialInfo]


@response(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    results: list[DescribeUserScramCredentialsResult]
