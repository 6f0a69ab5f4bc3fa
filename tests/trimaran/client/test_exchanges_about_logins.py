"""Exchanges of commands about users, client quotas, delegation tokens, and of those that change ACLs."""

from pathlib import Path

import pytest

from tests.trimaran.client.transcripts import Cases, exchange, exchanges
from trimaran.client import acls, quotas, tokens, users
from trimaran.quorum.metadata.acls import Acl
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_client_quotas,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
)
from trimaran.wire.security.sasl.scram import SCRAM_NUMBERS

case = Cases()
DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_exchanges_about_logins_are_as_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("secrets.token_bytes", lambda size: b"s" * size)
    case.check(Path(__file__).parent / "testdata/logins.txt")


# --- users


def users_described(*ones, code=0, message=None):
    results = [
        describe_user_scram_credentials.DescribeUserScramCredentialsResult(
            user=user,
            error_code=failed,
            error_message="why" if failed else None,
            credential_infos=[
                describe_user_scram_credentials.CredentialInfo(mechanism=n, iterations=4096 * n)
                for n in numbers
            ],
        )
        for user, numbers, failed in ones
    ]
    return describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        error_code=code, error_message=message, results=results
    )


@case
def _user_rows():
    found = users_described(("b", [2, 1], 0), ("a", [1], 0))
    failed = users_described(("a", [1], 0), ("b", [], ErrorCode.RESOURCE_NOT_FOUND))
    return exchanges(
        exchange(lambda client: users.user_rows(client, None), found),
        exchange(lambda client: users.user_rows(client, []), users_described()),
        exchange(lambda client: users.user_rows(client, ["a", "b"]), failed),
        exchange(lambda client: users.user_rows(client, None), users_described(code=DENIED)),
    )


@case
def _mechanisms_of():
    found = lambda client: users.mechanisms_of(client, "a")  # noqa: E731
    return exchanges(
        exchange(found, users_described(("a", [2, 1], 0))),
        exchange(found, users_described(("a", [], ErrorCode.RESOURCE_NOT_FOUND))),
        exchange(found, users_described(("a", [], ErrorCode.DUPLICATE_RESOURCE))),
        exchange(found, users_described()),
        exchange(found, users_described(code=DENIED, message="not you")),
    )


def user_altered(code=0, message=None):
    result = alter_user_scram_credentials.AlterUserScramCredentialsResult(
        user="a", error_code=code, error_message=message
    )
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(results=[result])


@case
def _set_password():
    both = lambda client: users.set_password(client, "a", SCRAM_NUMBERS, "p", 2)  # noqa: E731
    refused = user_altered(ErrorCode.UNACCEPTABLE_CREDENTIAL, "too few iterations")
    return exchanges(exchange(both, user_altered(), user_altered()), exchange(both, refused))


@case
def _delete_passwords():
    both = ["SCRAM-SHA-512", "SCRAM-SHA-256"]
    delete = lambda client: users.delete_passwords(client, "a", both)  # noqa: E731
    refused = user_altered(ErrorCode.RESOURCE_NOT_FOUND, "no such")
    return exchanges(exchange(delete, user_altered(), user_altered()), exchange(delete, refused))


# --- quotas


def quotas_described(*ones, code=0, message=None):
    entries = [
        describe_client_quotas.EntryData(
            entity=[
                describe_client_quotas.EntityData(entity_type=kind, entity_name=name)
                for kind, name in entity.items()
            ],
            values=[
                describe_client_quotas.ValueData(key=key, value=value)
                for key, value in values.items()
            ],
        )
        for entity, values in ones
    ]
    return describe_client_quotas.DescribeClientQuotasResponse(
        error_code=code, error_message=message, entries=None if code else entries
    )


@case
def _quota_rows():
    answer = quotas_described(
        ({"user": "b", "client-id": None}, {"request_percentage": 12.5}),
        ({"user": "a"}, {"producer_byte_rate": 2.0, "consumer_byte_rate": 1.0}),
    )
    entity = {"user": "a", "client-id": None}
    return exchanges(
        exchange(lambda client: quotas.quota_rows(client, {}), answer),
        exchange(lambda client: quotas.quota_rows(client, entity), quotas_described()),
        exchange(lambda client: quotas.quota_rows(client, entity, only_this=True), answer),
        exchange(lambda client: quotas.quota_rows(client, {}), quotas_described(code=DENIED)),
    )


def quotas_altered(code=0, message=None):
    entry = alter_client_quotas.AlterClientQuotasResponseEntryData(
        error_code=code, error_message=message, entity=[]
    )
    return alter_client_quotas.AlterClientQuotasResponse(entries=[entry])


@case
def _set_quotas():
    entity, values = {"user": "a", "client-id": None}, [("x", 1.5), ("y", 2.0)]

    def only_checked(client):
        return quotas.set_quotas(client, entity, values, validate_only=True)

    return exchanges(
        exchange(lambda client: quotas.set_quotas(client, entity, values), quotas_altered()),
        exchange(only_checked, quotas_altered(ErrorCode.INVALID_REQUEST, "no key x")),
    )


@case
def _delete_quotas():
    entity = {"ip": "::1"}

    def only_checked(client):
        return quotas.delete_quotas(client, entity, ["x"], validate_only=True)

    return exchanges(
        exchange(lambda client: quotas.delete_quotas(client, entity, ["x", "y"]), quotas_altered()),
        exchange(only_checked, quotas_altered(DENIED)),
    )


# --- delegation tokens


@case
def _token_rows():
    token = describe_delegation_token.DescribedDelegationToken(
        principal_type="User",
        principal_name="a",
        issue_timestamp=1,
        expiry_timestamp=2,
        max_timestamp=3,
        token_id="t",
        hmac=b"h",
        renewers=[
            describe_delegation_token.DescribedDelegationTokenRenewer(
                principal_type="User", principal_name=name
            )
            for name in ("b", "c")
        ],
    )
    answer = describe_delegation_token.DescribeDelegationTokenResponse
    disabled = answer(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, tokens=[])
    return exchanges(
        exchange(tokens.token_rows, answer(tokens=[token])),
        exchange(tokens.token_rows, disabled),
    )


@case
def _create_token():
    def answer(code=0):
        return create_delegation_token.CreateDelegationTokenResponse(
            error_code=code,
            principal_type="User",
            principal_name="a",
            issue_timestamp_ms=1,
            expiry_timestamp_ms=2,
            max_timestamp_ms=3,
            token_id="t",
            hmac=b"h",
        )

    def whole(client):
        return tokens.create_token(client, ("User", "a"), [("User", "b"), ("Group", "c")], 7)

    return exchanges(
        exchange(tokens.create_token, answer()),
        exchange(whole, answer()),
        exchange(whole, answer(ErrorCode.INVALID_PRINCIPAL_TYPE)),
    )


@case
def _renew_token():
    answer = renew_delegation_token.RenewDelegationTokenResponse
    renew = lambda client: tokens.renew_token(client, b"h", 7)  # noqa: E731
    return exchanges(
        exchange(renew, answer(expiry_timestamp_ms=9)),
        exchange(
            renew, answer(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED, expiry_timestamp_ms=-1)
        ),
    )


@case
def _expire_token():
    answer = expire_delegation_token.ExpireDelegationTokenResponse
    expire = lambda client: tokens.expire_token(client, b"h", tokens.AT_ONCE_MS)  # noqa: E731
    return exchanges(
        exchange(expire, answer(expiry_timestamp_ms=9)),
        exchange(
            expire, answer(error_code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND, expiry_timestamp_ms=-1)
        ),
    )


# --- ACLs

RULES = [Acl(2, "t", 4, "User:a", "h", 3, 2), Acl(3, "g", 3, "User:b", "*", 4, 3)]


@case
def _create_acls():
    def answer(*codes):
        results = [
            create_acls.AclCreationResult(error_code=code, error_message="why" if code else None)
            for code in codes
        ]
        return create_acls.CreateAclsResponse(results=results)

    create = lambda client: acls.create_acls(client, RULES)  # noqa: E731
    return exchanges(
        exchange(create, answer(0, 0)),
        exchange(create, answer(0, ErrorCode.SECURITY_DISABLED)),
    )


@case
def _delete_acls():
    def answer(*results):
        found = delete_acls.DeleteAclsMatchingAcl(
            resource_type=2,
            resource_name="t",
            principal="User:a",
            host="h",
            operation=3,
            permission_type=2,
        )
        return delete_acls.DeleteAclsResponse(
            filter_results=[
                delete_acls.DeleteAclsFilterResult(
                    error_code=code, error_message=None, matching_acls=[found] * count
                )
                for code, count in results
            ]
        )

    delete = lambda client: acls.delete_acls(client, RULES)  # noqa: E731
    return exchanges(
        exchange(delete, answer((0, 1), (0, 2))),
        exchange(delete, answer((0, 0), (0, 0))),
        exchange(delete, answer((0, 1), (ErrorCode.SECURITY_DISABLED, 0))),
    )
