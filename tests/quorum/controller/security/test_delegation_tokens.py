"""Delegation tokens as decisions: the life of a token, and permissions on it (KIP-48)."""

import itertools

import pytest

from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import features, image_of
from tests.slow_steps import calls_of
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.security import delegation_tokens
from trimaran.quorum.controller.security.delegation_tokens import (
    TokenRules,
    create_token,
    expire_token,
    expired_tokens,
    fail_create_token,
    renew_token,
)
from trimaran.quorum.metadata.tokens import describe_token, token_filter
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from trimaran.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from trimaran.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from trimaran.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from trimaran.wire.records.security import DelegationTokenRecord, RemoveDelegationTokenRecord

RULES = TokenRules(secret="key", lifetime_ms=1000, renewal_ms=100)
IMAGE = image_of(features())
ALICE, BOB, CARL = "User:alice", "User:bob", "User:carl"


def creation(image=IMAGE, rules=RULES, requester=ALICE, *, at=0, renewers=("bob",), **fields):
    values = {"owner_principal_type": "", "owner_principal_name": "", "max_lifetime_ms": -1}
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="User", principal_name=n) for n in renewers],
        **(values | fields),
    )
    ids = (f"token-{n}" for n in itertools.count(len(image.tokens)))
    return create_token(
        request, image, rules, requester, version=3, now_ms=at, new_id=lambda: next(ids)
    )


def create(image=IMAGE, *arguments, **options):
    result = creation(image, *arguments, **options)
    return image_of(*result.records, base=image), result.response


def renew(image, hmac, requester=ALICE, *, at, period=-1):
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)
    result = at_once(renew_token(request, image, RULES, requester, now_ms=at))
    return image_of(*result.records, base=image), result.response.expiry_timestamp_ms


def expire(image, hmac, requester=ALICE, *, at, period):
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)
    result = at_once(expire_token(request, image, RULES, requester, now_ms=at))
    return image_of(*result.records, base=image), result.response.expiry_timestamp_ms


def token_record(token_id):
    return DelegationTokenRecord(
        owner=ALICE,
        requester=ALICE,
        renewers=[BOB],
        issue_timestamp=0,
        max_timestamp=1000,
        expiration_timestamp=100,
        token_id=token_id,
    )


def refused(function, *arguments, **options):
    with pytest.raises(KafkaError) as caught:
        function(*arguments, **options)
    return caught.value.code


def test_names_in_all_tokens_have_bounded_size(monkeypatch):
    monkeypatch.setattr(delegation_tokens, "TOKENS_BYTES_MAX", 100_000)
    image = IMAGE
    for _ in range(3):
        image, token = create(image, renewers=["r" * 10_000] * 3)
    assert refused(create, image, renewers=["r" * 10_000]) is ErrorCode.POLICY_VIOLATION
    image, _ = create(image)
    assert refused(create, image, requester=f"User:{'a' * 10_000}") is ErrorCode.POLICY_VIOLATION
    image, _ = expire(image, token.hmac, at=1, period=-1)
    image, _ = create(image, renewers=["r" * 10_000])
    owner = {"owner_principal_type": "User", "owner_principal_name": "a" * 29_000}
    assert refused(create, image, **owner) is ErrorCode.POLICY_VIOLATION


def test_token_is_found_in_steps_of_some():
    image = image_of(*[token_record(f"{n}") for n in range(1_000)], base=IMAGE)
    request = RenewDelegationTokenRequest(hmac=b"?", renew_period_ms=1)
    steps = renew_token(request, image, RULES, ALICE, now_ms=1)
    assert [next(steps) for _ in range(125)] == [1] * 125
    assert refused(next, steps) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("count", [100, 1_000])
def test_creation_does_not_look_at_other_tokens(count):
    """The function calls of a creation are counted; a sum over all tokens would make more."""
    image = image_of(*[token_record(f"{n}") for n in range(count)], base=IMAGE)
    assert calls_of(lambda: creation(image)) < 100


def test_token_is_created_renewed_and_expired():
    image, token = create(at=10)
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms) == (10, 110)
    assert token.max_timestamp_ms == 1010
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
    image, expiry = renew(image, token.hmac, BOB, at=100)
    assert expiry == 200
    image, expiry = renew(image, token.hmac, at=150, period=7)
    assert expiry == 157
    image, expiry = expire(image, token.hmac, at=150, period=50)
    assert expiry == 200
    image, expiry = expire(image, token.hmac, at=160, period=5000)
    assert expiry == 1010  # never beyond its maximum lifetime
    image, expiry = expire(image, token.hmac, at=170, period=0)
    assert (expiry, list(image.tokens)) == (170, ["token-0"])
    image, expiry = renew(image, token.hmac, at=170)  # the last millisecond of its life
    assert expiry == 270
    image, expiry = expire(image, token.hmac, at=180, period=-1)
    assert expiry == 180
    assert not image.tokens


@pytest.mark.parametrize(
    ("asked", "granted"), [(-1, 100), (0, 100), (1, 1), (100, 100), (101, 100)]
)
def test_renewal_period_is_capped_by_the_rule(asked, granted):
    rules = TokenRules(secret="key", lifetime_ms=100, renewal_ms=100)
    image, token = create(rules=rules, at=10, max_lifetime_ms=asked)
    assert token.max_timestamp_ms == 10 + granted
    image, token = create(at=10)
    assert renew(image, token.hmac, at=20, period=asked)[1] == 20 + granted


def test_endless_lifetime_ends_with_largest_time():
    forever = (1 << 63) - 1
    rules = TokenRules(secret="key", lifetime_ms=forever, renewal_ms=forever)
    _, token = create(rules=rules, at=10)
    assert token.max_timestamp_ms == token.expiry_timestamp_ms == forever


def test_token_rules_come_from_the_configuration():
    rules = TokenRules.of(config_of(delegation_token_secret_key="s3cret"))
    assert (rules.secret, rules.lifetime_ms, rules.renewal_ms) == ("s3cret", 604800000, 86400000)
    assert TokenRules.of(config_of()).secret == ""


def test_refusal_contains_no_times():
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    answer = fail_create_token(request, ALICE, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 3)
    times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    assert times == (-1, -1, -1)


def test_hmac_is_sha_512_of_token_id():
    """Checked with `echo -n token-0 | openssl dgst -sha512 -hmac key`."""
    _, token = create()
    assert token.hmac.hex().startswith("e5d568ddf205813eda61abb3e3993e95")
    assert len(token.hmac) == 64
    _, other = create(rules=TokenRules("other key", 1000, 100))
    assert other.hmac != token.hmac


def test_token_may_have_another_owner_and_shorter_life():
    image, token = create(
        owner_principal_type="User", owner_principal_name="carl", max_lifetime_ms=50
    )
    assert (token.principal_name, token.token_requester_principal_name) == ("carl", "alice")
    assert token.max_timestamp_ms == token.expiry_timestamp_ms == 50
    assert (
        refused(renew, image, token.hmac, ALICE, at=1) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    )
    assert renew(image, token.hmac, CARL, at=1)[1] == 50


def test_invalid_token_requests_are_refused():
    image, token = create()
    hmac = token.hmac
    assert refused(renew, image, b"?", at=1) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert refused(renew, image, hmac, at=101) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refused(expire, image, hmac, at=101, period=1) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert (
        refused(expire, image, hmac, CARL, at=1, period=-1)
        is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    )
    no_key = TokenRules("", 1000, 100)
    assert refused(create, rules=no_key) is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert refused(create, image_of(features(13))) is ErrorCode.UNSUPPORTED_VERSION
    assert create(image_of(features(14)))[1].token_requester_principal_name == "alice"
    assert refused(create, renewers=["x"] * 1001) is ErrorCode.INVALID_REQUEST
    assert create(renewers=["x"] * 1000)[1].error_code == 0
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=1)
    code = refused(at_once, renew_token(request, image, no_key, ALICE, now_ms=1))
    assert code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_renewer_must_be_a_user():
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="Group", principal_name="g")], max_lifetime_ms=1
    )
    code = refused(create_token, request, IMAGE, RULES, ALICE, version=3, now_ms=0, new_id=str)
    assert code is ErrorCode.INVALID_PRINCIPAL_TYPE


def test_tokens_are_visible_to_owner_and_renewers():
    image, _ = create(requester=ALICE, renewers=["bob"])
    image, _ = create(image, requester=CARL, renewers=[])

    def told(requester, *owners, may_see=False):
        listed = [
            DescribeDelegationTokenOwner(principal_type="User", principal_name=o) for o in owners
        ]
        request = DescribeDelegationTokenRequest(owners=listed or None)
        is_wanted = token_filter(request, requester, lambda _: may_see)
        return sorted(key for key, token in image.tokens.items() if is_wanted(token))

    assert told(ALICE) == told(BOB) == ["token-0"]
    assert told(CARL) == ["token-1"]
    assert told("User:dora") == []
    assert told("User:dora", may_see=True) == ["token-0", "token-1"]
    assert told("User:dora", "bob", may_see=True) == ["token-0"]
    # The requester on behalf of an owner has the owner's permissions.
    by_dora = {key: token.replace(requester="User:dora") for key, token in image.tokens.items()}
    of_dora = DescribeDelegationTokenOwner(principal_type="User", principal_name="dora")
    for owners in (None, [of_dora]):
        request = DescribeDelegationTokenRequest(owners=owners)
        is_wanted = token_filter(request, "User:dora", lambda _: False)
        assert all(map(is_wanted, by_dora.values()))
    nobody = DescribeDelegationTokenRequest(owners=[])
    is_wanted = token_filter(nobody, ALICE, lambda _: True)
    assert not any(map(is_wanted, image.tokens.values()))


def test_expired_tokens_are_removed():
    image, _ = create(at=0)
    image, _ = create(image, at=50)
    assert expired_tokens(image.tokens, now_ms=100) == []
    assert expired_tokens(image.tokens, now_ms=101) == [
        RemoveDelegationTokenRecord(token_id="token-0")
    ]
    record = image.tokens["token-0"]
    many = image_of(*(record.replace(token_id=f"t{n}") for n in range(1001)))
    assert len(expired_tokens(many.tokens, now_ms=10_000)) == 1000


def test_token_ends_with_its_maximum_life():
    """Another version may have written an expiration after the maximum."""
    image, token = create()
    over = image.tokens["token-0"].replace(max_timestamp=50, expiration_timestamp=100)
    image = image_of(over, base=image)
    assert refused(renew, image, token.hmac, at=51) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert len(expired_tokens(image.tokens, now_ms=51)) == 1


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_version_can_be_written(version):
    """Only version 3 has a field for the requester; in an older response it must be omitted, not refused by our own
    encoder.
    """
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
    refused = fail_create_token(request, ALICE, ErrorCode.NONE, version)
    assert refused.decode(refused.encode(version), version).principal_name == "alice"
    record = DelegationTokenRecord(
        owner=ALICE,
        requester=ALICE,
        renewers=[],
        issue_timestamp=1,
        max_timestamp=2,
        expiration_timestamp=2,
        token_id="id",
    )
    described = describe_token(record, "key", version)
    answer = DescribeDelegationTokenResponse(tokens=[described])
    assert len(answer.decode(answer.encode(version), version).tokens) == 1
