"""RenewDelegationToken through a broker."""

from tests.broker.handlers.tokens import asked_by, connected_as, token_of
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.renew_delegation_token import RenewDelegationTokenRequest


def renewal(hmac=b"h", period_ms=1_000):
    return RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)


async def test_only_owner_renews_token(tmp_path):
    async with asked_by(tmp_path, "alice") as one:
        token = await token_of(one)
        answer = await one.call(renewal(token.hmac))
        assert answer.error_code == 0
        assert token.issue_timestamp_ms < answer.expiry_timestamp_ms < token.expiry_timestamp_ms
        async with connected_as(one.broker, "bob") as bob:
            answer = await bob.call(renewal(token.hmac), timeout=5)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


async def test_missing_token_is_not_found(tmp_path):
    async with asked_by(tmp_path, "alice") as one:
        answer = await one.call(renewal())
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_plaintext_client_renews_no_token(tmp_path):
    async with asked_by(tmp_path, None) as one:
        answer = await one.call(renewal())
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert answer.expiry_timestamp_ms == -1
