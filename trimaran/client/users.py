"""SCRAM users: the mechanisms with which they may log in, and changes of their passwords (KIP-554).

A request may alter a user only once, so each mechanism has a request of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import Needs, check
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from trimaran.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from trimaran.wire.security.sasl import scram

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

_SALT_BYTES = 24


def user_rows(client: BlockingClient, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """Returns a row for each mechanism of the named users, or of all users without names; none for a name without a
    password. Raises KafkaError.
    """
    wanted = [UserName(name=name) for name in names] if names else None
    response = client.call(None, DescribeUserScramCredentialsRequest(users=wanted))
    check(response.error_code, response.error_message, needs=Needs("DESCRIBE"))
    for result in response.results:
        if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            check(result.error_code, result.error_message, needs=Needs("DESCRIBE"))
    return [
        {
            "user": result.user,
            "mechanism": _mechanism(info.mechanism),
            "iterations": info.iterations,
        }
        for result in sorted(response.results, key=lambda one: str(one.user))
        for info in result.credential_infos
    ]


def mechanisms_of(client: BlockingClient, name: str) -> list[str]:
    """Returns the mechanisms with which a user may log in, in their order; none if there is no such user. Raises
    KafkaError.
    """
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name)])
    response = client.call(None, request)
    check(response.error_code, response.error_message, needs=Needs("DESCRIBE"))
    found = single_item(response.results, "user")
    if found.error_code == ErrorCode.RESOURCE_NOT_FOUND:
        return []
    check(found.error_code, found.error_message)
    return [_mechanism(n) for n in sorted({info.mechanism for info in found.credential_infos})]


def set_password(
    client: BlockingClient, name: str, mechanisms: Iterable[str], password: str, iterations: int
) -> None:
    """Sets the password of a user for each of the mechanisms. Only salted passwords are sent. Raises KafkaError."""
    for mechanism in mechanisms:
        salt = secrets.token_bytes(_SALT_BYTES)
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=scram.SCRAM_NUMBERS[mechanism],
            iterations=iterations,
            salt=salt,
            salted_password=scram.salted_password(
                scram.SCRAM_DIGESTS[mechanism], password, salt, iterations
            ),
        )
        _alter(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


def delete_passwords(client: BlockingClient, name: str, mechanisms: Iterable[str]) -> None:
    """Deletes the passwords of a user for the mechanisms. Raises KafkaError."""
    for mechanism in mechanisms:
        deletion = ScramCredentialDeletion(name=name, mechanism=scram.SCRAM_NUMBERS[mechanism])
        _alter(client, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))


def _mechanism(number: int) -> str:
    return scram.SCRAM_MECHANISMS.get(number, f"UNKNOWN({number})")


def _alter(client: BlockingClient, request: AlterUserScramCredentialsRequest) -> None:
    result = single_item(client.call(None, request).results, "user")
    check(result.error_code, result.error_message, needs=Needs("ALTER"))
