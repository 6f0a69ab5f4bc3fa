"""DescribeUserScramCredentials (50): returns mechanisms and iterations of users, never a key. Source: Kafka's
`ScramImage`, KIP-554.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trimaran.quorum.metadata.image import ScramImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResult,
)


def describe_scram(
    request: DescribeUserScramCredentialsRequest, scram: ScramImage
) -> Iterator[DescribeUserScramCredentialsResult]:
    """Yields the named users, or all if none is named; a user who is unknown or named twice gets an error."""
    infos: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), record in sorted(scram.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=record.iterations)
        infos.setdefault(user, []).append(info)
    times = Counter(user.name for user in request.users or ())
    return (_result(user, times[user], infos) for user in (times or infos))


def _result(
    user: str, times: int, infos: dict[str, list[CredentialInfo]]
) -> DescribeUserScramCredentialsResult:
    code, message = ErrorCode.NONE, None
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif user not in infos:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=code,
        error_message=message,
        credential_infos=[] if code else infos[user],
    )
