"""ExpireDelegationToken on the controller."""

from tests.broker.handlers.test_expire_delegation_token import expiry
from tests.quorum.controller.handlers.controller_client import controller_client
from tests.quorum.controller.handlers.test_create_delegation_token import CREATION, SECRET
from trimaran.wire.errors import ErrorCode


async def test_owner_expires_its_token(tmp_path):
    async with controller_client(tmp_path, **SECRET) as one:
        token = await one.forwarded(CREATION, 3, "alice")
        answer = await one.forwarded(expiry(token.hmac), 2, "bob")
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert len(one.image.tokens) == 1
        assert (await one.forwarded(expiry(token.hmac), 2, "alice")).error_code == 0
        assert not one.image.tokens


async def test_unknown_token_or_plaintext_request_is_refused(tmp_path):
    async with controller_client(tmp_path, **SECRET) as one:
        answer = await one.forwarded(expiry(), 2, "alice")
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        answer = await one.call(expiry())
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
