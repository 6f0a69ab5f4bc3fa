"""Decides AlterUserScramCredentials. Source: Kafka's `ScramControlManager`, KIP-554, RFC 5802.

The client sends the salted password; the record has the keys that a server needs, from which the password cannot be
recovered. A request cannot carry keys derived by another process: only code in this process passes keys.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.partitions.topics import RECORDS_MAX
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.image import MetadataImage, ScramKey
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from trimaran.wire.records.security import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.sasl.scram import SCRAM_DIGESTS, SCRAM_MECHANISMS

# Kafka's limits: fewer iterations make passwords guessable; more would let a login occupy the server.
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


def fail_alter_scram(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str
) -> AlterUserScramCredentialsResponse:
    """Returns the response for a request that could not be decided at all: the same error for each user."""
    users = dict.fromkeys(change.name for change in _changes(request))
    return AlterUserScramCredentialsResponse(
        results=[_result(user, KafkaError(code, message)) for user in users]
    )


def alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, image: MetadataImage
) -> Steps[Result[Message, AlterUserScramCredentialsResponse]]:
    """Changes each user completely or not at all, with one result for each user.

    Raises:
        KafkaError: POLICY_VIOLATION if there are too many; nothing is changed.
    """
    by_user: dict[str, list[_Change]] = {}
    for change in _changes(request):
        by_user.setdefault(change.name, []).append(change)
    if len(by_user) > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )
    records: list[Message] = []
    results = []
    for user, changes in by_user.items():
        try:
            records.append(_decide(changes, image))
            results.append(_result(user, None))
        except KafkaError as error:
            results.append(_result(user, error))
        yield 1  # deriving a key takes about 10 µs
    return Result(records, AlterUserScramCredentialsResponse(results=results))


def store_scram_credential(
    record: UserScramCredentialRecord, image: MetadataImage
) -> Result[Message, AlterUserScramCredentialsResponse]:
    """Stores a credential that already has the server's keys, with the checks of a request.

    Raises:
        KafkaError: the credential is refused; nothing is changed.
    """
    _require_allowed(record, image)
    _require_iterations(record.iterations)
    size = hashlib.new(SCRAM_DIGESTS[SCRAM_MECHANISMS[record.mechanism]]).digest_size
    if not record.salt or any(len(key) != size for key in (record.stored_key, record.server_key)):
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, "Keys are not those of the mechanism, or no salt"
        )
    results = [_result(record.name, None)]
    return Result([record], AlterUserScramCredentialsResponse(results=results))


def _changes(request: AlterUserScramCredentialsRequest) -> list[_Change]:
    return [*request.deletions, *request.upsertions]


def _decide(changes: Sequence[_Change], image: MetadataImage) -> Message:
    change = changes[0]
    if len(changes) > 1:
        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    _require_allowed(change, image)
    if isinstance(change, ScramCredentialUpsertion):
        return _credential(change)
    if ScramKey(change.name, change.mechanism) not in image.scram:
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)


def _require_allowed(change: _Change | UserScramCredentialRecord, image: MetadataImage) -> None:
    if image.features.metadata_version < versions.SCRAM:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
        )
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in SCRAM_MECHANISMS:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _require_iterations(iterations: int) -> None:
    if iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


def _credential(change: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    _require_iterations(change.iterations)
    digest = SCRAM_DIGESTS[SCRAM_MECHANISMS[change.mechanism]]
    # RFC 5802, section 3.
    client_key = hmac.digest(change.salted_password, b"Client Key", digest)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(change.salted_password, b"Server Key", digest),
        iterations=change.iterations,
    )


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=user)
    return AlterUserScramCredentialsResult(
        user=user, error_code=error.code, error_message=error.message
    )
