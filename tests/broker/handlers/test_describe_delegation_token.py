"""DescribeDelegationToken: what this broker knows, and each his own where there is an authorizer."""

from tests.broker.handlers.asking import AUTHORIZER
from tests.broker.handlers.tokens import asked_by, connected_as, token_of
from wire.errors import ErrorCode
from wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)

ALL = DescribeDelegationTokenRequest(owners=None)


def of(name):
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name=name)
    return DescribeDelegationTokenRequest(owners=[owner])


async def test_tokens_are_told_by_owner(tmp_path):
    async with asked_by(tmp_path, "alice") as one:
        token = await token_of(one)
        for request, found in ((ALL, [token.hmac]), (of("alice"), [token.hmac]), (of("bob"), [])):
            answer = await one.call(request)
            assert (answer.error_code, [one.hmac for one in answer.tokens]) == (0, found)


async def test_with_an_authorizer_others_see_nothing_of_it(tmp_path):
    async with asked_by(tmp_path, "alice", **AUTHORIZER) as one:
        await token_of(one)
        assert len((await one.call(ALL)).tokens) == 1
        async with connected_as(one.broker, "bob") as bob:
            assert (await bob.call(ALL, timeout=5)).tokens == []


async def test_nobody_is_told_on_plain_text(tmp_path):
    async with asked_by(tmp_path, None) as one:
        answer = await one.call(ALL)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_without_a_secret_there_are_none(tmp_path):
    async with asked_by(tmp_path, "alice", delegation_token_secret_key="") as one:
        answer = await one.call(ALL)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
