"""DescribeUserScramCredentials: mechanisms and iterations, never a secret."""

from types import SimpleNamespace

import pytest

from tests.broker.calls import call, carried_out
from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.test_alter_user_scram_credentials import upsertion
from tests.broker.rooms import NotedRoom
from trimaran.broker.handlers.describe_user_scram_credentials import describe_user_scram_credentials
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.scheduling.effects import ITEM_COST_BYTES, Compute


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


@pytest.mark.parametrize(("names", "shown", "visited"), [((), 3, 3), (("b", "none"), 2, 5)])
async def test_memory_and_work_follow_credentials_and_names(names, shown, visited):
    scram = {(name, 1): SimpleNamespace(iterations=4096) for name in "abc"}
    context = SimpleNamespace(metadata=SimpleNamespace(image=SimpleNamespace(scram=scram)))
    request = described(*names)
    asked, effects = call(request, 0), []
    room = NotedRoom(asked)
    answer = await carried_out(describe_user_scram_credentials(request, context, asked), effects)
    assert len(answer.results) == shown
    assert room.noted == [("expect", 3 * OBJECT_BYTES)]
    costs = [effect.cost_bytes for effect in effects if isinstance(effect, Compute)]
    assert costs == [visited * ITEM_COST_BYTES]
