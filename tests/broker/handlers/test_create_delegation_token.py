"""CreateDelegationToken through a broker: for authenticated clients."""

from tests.broker.handlers.tokens import CREATION, asked_by, token_of
from trimaran.wire.errors import ErrorCode


async def test_authenticated_client_gets_a_token(tmp_path):
    async with asked_by(tmp_path, "alice") as one:
        token = await token_of(one)
        assert (token.principal_type, token.principal_name) == ("User", "alice")
        assert token.issue_timestamp_ms < token.expiry_timestamp_ms <= token.max_timestamp_ms
        assert len(token.hmac) == 64


async def test_plaintext_client_gets_no_token(tmp_path):
    async with asked_by(tmp_path, None) as one:
        answer = await one.call(CREATION)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert answer.hmac == b""


async def test_broker_without_secret_creates_no_token(tmp_path):
    async with asked_by(tmp_path, "alice", delegation_token_secret_key="") as one:
        answer = await one.call(CREATION)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
