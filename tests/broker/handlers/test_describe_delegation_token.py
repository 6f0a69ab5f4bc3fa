"""DescribeDelegationToken: answered from the broker's own metadata; with an authorizer, users see only their own
tokens.
"""

from tests.broker.handlers.broker_client import AUTHORIZER
from tests.broker.handlers.tokens import asked_by, connected_as, token_of
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import AclIndex
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

ALL = DescribeDelegationTokenRequest(owners=None)


def of(name):
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name=name)
    return DescribeDelegationTokenRequest(owners=[owner])


async def test_tokens_are_listed_by_owner(tmp_path):
    async with asked_by(tmp_path, "alice") as one:
        token = await token_of(one)
        for request, found in ((ALL, [token.hmac]), (of("alice"), [token.hmac]), (of("bob"), [])):
            answer = await one.call(request)
            assert (answer.error_code, [token.hmac for token in answer.tokens]) == (
                0,
                found,
            )


async def test_token_is_hidden_from_other_users(tmp_path):
    async with asked_by(tmp_path, "alice", **AUTHORIZER) as one:
        await token_of(one)
        assert len((await one.call(ALL)).tokens) == 1
        async with connected_as(one.broker, "bob") as bob:
            assert (await bob.call(ALL, timeout=5)).tokens == []


async def test_plaintext_client_sees_no_tokens(tmp_path):
    async with asked_by(tmp_path, None) as one:
        answer = await one.call(ALL)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_broker_without_secret_describes_no_token(tmp_path):
    async with asked_by(tmp_path, "alice", delegation_token_secret_key="") as one:
        answer = await one.call(ALL)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


async def test_permission_on_token_or_owner_suffices(tmp_path):
    async with asked_by(tmp_path, "alice", **AUTHORIZER) as one:
        token = await token_of(one)
        token_id, owner = ResourceType.DELEGATION_TOKEN, ResourceType.USER
        seen = {}
        async with connected_as(one.broker, "bob") as bob:
            for operation, kind, name in (
                (Operation.DESCRIBE, token_id, token.token_id),
                (Operation.DESCRIBE_TOKENS, owner, "User:alice"),
                (Operation.DESCRIBE, token_id, "another"),
                (Operation.DESCRIBE_TOKENS, owner, "User:carol"),
                (Operation.CREATE_TOKENS, owner, "User:alice"),
                (Operation.READ, owner, "User:alice"),
            ):
                acl = Acl(
                    kind, name, PatternType.LITERAL, "User:bob", "*", operation, Permission.ALLOW
                )
                authorizer = one.broker.contexts.data.authorizer
                authorizer._index = AclIndex.of([acl])
                authorizer._kept.clear()
                answer = await bob.call(ALL, timeout=5)
                seen[operation.name, name == token.token_id, name] = len(answer.tokens)
        assert list(seen.values()) == [1, 1, 0, 0, 0, 0], seen
