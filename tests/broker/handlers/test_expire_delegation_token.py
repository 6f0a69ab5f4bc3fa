"""ExpireDelegationToken through a broker."""

from tests.broker.handlers.tokens import asked_by, connected_as, token_of
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest

AT_ONCE = -1


def expiry(hmac=b"h", period_ms=AT_ONCE):
    return ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)


async def test_owner_expires_its_token(tmp_path):
    async with asked_by(tmp_path, "alice") as one:
        token = await token_of(one)
        async with connected_as(one.broker, "bob") as bob:
            answer = await bob.call(expiry(token.hmac), timeout=5)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await one.call(expiry(token.hmac))).error_code == 0
        await one.seen(lambda image: not image.tokens)
        again = await one.call(expiry(token.hmac))
        assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_plaintext_client_expires_no_token(tmp_path):
    async with asked_by(tmp_path, None) as one:
        answer = await one.call(expiry())
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert answer.expiry_timestamp_ms == -1
