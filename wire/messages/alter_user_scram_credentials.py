"""AlterUserScramCredentials (51): sets and removes SCRAM credentials of users (KIP-554)."""

from trimaran.wire.codec.declarations import Struct, data, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class ScramCredentialDeletion(Struct):
    name: string
    mechanism: int8


class ScramCredentialUpsertion(Struct):
    name: string
    mechanism: int8
    iterations: int32
    salt: data
    salted_password: data


@request(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: string
    error_code: int16 = 0
    error_message: string | None = None


@response(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult]
