"""SCRAM credentials in `/config/users/USER`, as `kafka-configs --zookeeper` writes them beside the quotas.

They are keys derived from a password, which no request can carry: AlterUserScramCredentials takes the salted
password. So only a mirror inside one of our controllers can store them, and a missing credential means a removed one
only if the mirror shows credentials. A tool's write while no mirror led may contain an outdated credential beside a
changed quota: it is refused if the version that the tool had read is unknown. Source: `ConfigCommand` of Kafka 2.8,
`ZkMigrationClient` of 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from trimaran.quorum.metadata.image import MetadataImage, ScramKey
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from trimaran.zkcompat.legacy.requests.admin_requests import (
    AdminRequest,
    QuorumRequest,
    RequestKind,
    refusal,
)
from trimaran.zkcompat.znodes.scram_credential import SCRAM_KEYS, parse_scram_text, scram_text


def decide(
    path: str, user: str, wanted: Mapping[str, str], image: MetadataImage, *, shown: bool
) -> AdminRequest | None:
    """Returns the request of the credentials in a user's znode; None if they equal the image. `shown`: the mirror
    writes them there.
    """
    differing: list[str] = []
    quorum_requests: list[QuorumRequest] = []
    refused: list[str] = []
    for mechanism, key in SCRAM_KEYS.items():
        known, text = image.scram.get(ScramKey(user, mechanism)), wanted.get(key)
        if text is None:
            if known is not None and shown:
                differing.append(key)
                quorum_requests.append(_remove(user, mechanism, key))
            continue
        if known is not None and text == scram_text(known):
            continue
        differing.append(key)
        try:
            record = parse_scram_text(user, mechanism, text)
        except RemoteProtocolError as error:
            refused.append(f"set {key} of user {user}: {error}")
            continue
        if known is None or scram_text(record) != scram_text(known):
            quorum_requests.append(QuorumRequest(record, _refusals(f"set {key} of user {user}")))
    if not quorum_requests and not refused:
        return None
    description = f"alter {', '.join(differing)} of user {user}"
    return AdminRequest(
        RequestKind.SCRAM,
        description,
        quorum_requests=quorum_requests,
        refused=refused,
        entities=[path],
        secrets=[path],
    )


def too_late(request: AdminRequest) -> AdminRequest:
    """Refuses credentials that may be older than those of the image."""
    said = (
        f"{request.description}: it was written while no mirror led, too long ago to tell what is new in it; "
        "write it again"
    )
    return replace(request, quorum_requests=[], refused=[said])


def _remove(user: str, mechanism: int, key: str) -> QuorumRequest:
    deletion = ScramCredentialDeletion(name=user, mechanism=mechanism)
    request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
    gone = ErrorCode.RESOURCE_NOT_FOUND
    return QuorumRequest(request, _refusals(f"remove {key} of user {user}", gone))


def _refusals(description: str, *obeyed: ErrorCode) -> Callable[[Any], list[str]]:
    def refusals(response: Any) -> list[str]:
        (result,) = response.results
        return refusal(description, result.error_code, result.error_message, *obeyed)

    return refusals
