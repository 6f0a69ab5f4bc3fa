"""AlterUserScramCredentials as a decision, DescribeUserScramCredentials from an image (KIP-554)."""

import base64
import hashlib
import hmac

import pytest

from tests.quorum.metadata.build import features, image_of
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.security.scram import (
    alter_scram_credentials,
    store_scram_credential,
)
from trimaran.quorum.metadata.scram import describe_scram
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from trimaran.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from trimaran.wire.records.security import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

SHA_256, SHA_512 = 1, 2
STORED = ("name", "mechanism", "salt", "stored_key", "server_key", "iterations")
IMAGE = image_of(features())


def upsertion(name="alice", mechanism=SHA_256, iterations=4096, password=b"p" * 32):
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=password,
    )


def deletion(name="alice", mechanism=SHA_256):
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(*changes, image=IMAGE):
    request = AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
        upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    result = at_once(alter_scram_credentials(request, image))
    answers = {answer.user: answer for answer in result.response.results}
    return list(result.records), answers


def test_keys_match_rfc_7677():
    """The example of RFC 7677, section 3: user "user", password "pencil"."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    (record,), answers = alter(upsertion("user", password=salted))
    assert answers["user"].error_code == 0
    # The RFC has the server's computation from them: ServerSignature = HMAC(ServerKey, AuthMessage).
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(record.server_key, message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_signature = hmac.digest(record.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
    assert hashlib.sha256(client_key).digest() == record.stored_key


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (
            deletion(),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_invalid_credential_is_refused_alone(change, code, message):
    records, answers = alter(change, upsertion("bob"))
    assert [record.name for record in records] == ["bob"]
    refused = answers[change.name]
    assert (refused.error_code, refused.error_message) == (code, message)
    assert answers["bob"].error_code == 0


def test_iterations_have_a_maximum():
    assert len(alter(upsertion(iterations=16384))[0]) == 1


def test_ten_thousand_users_may_be_altered_at_once():
    users = [deletion(f"u{n}") for n in range(10_001)]
    assert len(alter(*users[1:])[1]) == 10_000
    with pytest.raises(KafkaError) as caught:
        alter(*users)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_a_user_is_altered_once_a_request():
    assert alter(upsertion(), upsertion())[0] == []
    records, answers = alter(upsertion(), upsertion(mechanism=SHA_512), deletion())
    assert records == []
    assert answers["alice"].error_code == ErrorCode.DUPLICATE_RESOURCE


def test_credentials_are_described_and_deleted():
    records, _ = alter(upsertion(), upsertion("bob", SHA_512, 8192))
    image = image_of(*records, base=IMAGE)

    def described(*users):
        names = [UserName(name=user) for user in users]
        request = DescribeUserScramCredentialsRequest(users=names or None)
        return [
            (
                result.user,
                result.error_code,
                [(info.mechanism, info.iterations) for info in result.credential_infos],
            )
            for result in describe_scram(request, image.scram)
        ]

    assert described() == [("alice", 0, [(SHA_256, 4096)]), ("bob", 0, [(SHA_512, 8192)])]
    assert described("bob", "carl", "carl", "dora") == [
        ("bob", 0, [(SHA_512, 8192)]),
        ("carl", ErrorCode.DUPLICATE_RESOURCE, []),
        ("dora", ErrorCode.RESOURCE_NOT_FOUND, []),
    ]
    (record,), _ = alter(deletion(), image=image)
    assert isinstance(record, RemoveUserScramCredentialRecord)
    assert list(image_of(record, base=image).scram) == [("bob", SHA_512)]


def test_old_level_refuses_scram():
    records, answers = alter(upsertion(), image=image_of(features(10)))
    assert records == []
    assert answers["alice"].error_code == ErrorCode.UNSUPPORTED_VERSION
    assert len(alter(upsertion(), image=image_of(features(11)))[0]) == 1
    with pytest.raises(KafkaError, match="does not support SCRAM"):
        store_scram_credential(stored(), image_of(features(10)))


def stored(**changes):
    (record,), _ = alter(upsertion())
    members = {key: getattr(record, key) for key in STORED}
    return UserScramCredentialRecord(**{**members, **changes})


def test_keys_derived_elsewhere_are_stored_unchanged():
    result = store_scram_credential(stored(), IMAGE)
    assert list(result.records) == [stored()]
    assert [(answer.user, answer.error_code) for answer in result.response.results] == [
        ("alice", 0)
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, "Username must not be empty"),
        ({"mechanism": 3}, "Unknown SCRAM mechanism"),
        ({"mechanism": SHA_512}, "Keys are not those of the mechanism"),
        ({"iterations": 4095}, "Too few iterations"),
        ({"iterations": 16385}, "Too many iterations"),
        ({"salt": b""}, "no salt"),
        ({"stored_key": b"short"}, "Keys are not those"),
        ({"server_key": b"k" * 33}, "Keys are not those"),
    ],
)
def test_request_bounds_apply_to_keys(changes, said):
    with pytest.raises(KafkaError, match=said):
        store_scram_credential(stored(**changes), IMAGE)
