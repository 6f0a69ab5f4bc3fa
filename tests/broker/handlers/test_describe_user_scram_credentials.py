"""DescribeUserScramCredentials: mechanisms and iterations, never a secret."""

from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.test_alter_user_scram_credentials import upsertion
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)


def described(*names):
    users = [UserName(name=name) for name in names] or None
    return DescribeUserScramCredentialsRequest(users=users)


async def test_all_or_named_users_are_described(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.call(upsertion("alice"))
        await one.call(upsertion("bob", 8192))
        await one.seen(lambda image: len(image.scram) == 2)
        answer = await one.call(described())
        assert {r.user: r.credential_infos[0].iterations for r in answer.results} == {
            "alice": 4096,
            "bob": 8192,
        }
        only = await one.call(described("bob"))
        assert [(r.user, r.credential_infos[0].mechanism) for r in only.results] == [("bob", 1)]


async def test_missing_and_repeated_users_are_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(described("nobody", "twice", "twice"))
        assert {r.user: r.error_code for r in answer.results} == {
            "nobody": ErrorCode.RESOURCE_NOT_FOUND,
            "twice": ErrorCode.DUPLICATE_RESOURCE,
        }
