"""RenewDelegationToken on the controller."""

from tests.broker.handlers.test_renew_delegation_token import renewal
from tests.quorum.controller.handlers.controller_client import controller_client
from tests.quorum.controller.handlers.test_create_delegation_token import CREATION, SECRET
from trimaran.wire.errors import ErrorCode


async def test_only_owner_renews_token(tmp_path):
    async with controller_client(tmp_path, **SECRET) as one:
        token = await one.forwarded(CREATION, 3, "alice")
        answer = await one.forwarded(renewal(token.hmac), 2, "alice")
        assert answer.error_code == 0
        (known,) = one.image.tokens.values()
        assert known.expiration_timestamp == answer.expiry_timestamp_ms < token.expiry_timestamp_ms
        answer = await one.forwarded(renewal(token.hmac), 2, "bob")
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


async def test_unknown_token_or_plaintext_request_is_refused(tmp_path):
    async with controller_client(tmp_path, **SECRET) as one:
        answer = await one.forwarded(renewal(), 2, "alice")
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        answer = await one.call(renewal())
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
