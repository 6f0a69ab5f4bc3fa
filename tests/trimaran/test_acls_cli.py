"""`trimaran acls` against a broker, and the meaning of its arguments."""

import json
from functools import partial

import pytest
import trio

from tests.broker.handlers.broker_client import AUTHORIZER, broker_client
from trimaran.cli import acls
from trimaran.cli.connect import Brokers
from trimaran.client.acls import parse_operations, parse_pattern
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.security.acls import CLUSTER_NAME, Operation, PatternType, ResourceType

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("topic/orders", (ResourceType.TOPIC, "orders", LITERAL)),
        ("topic/orders-*", (ResourceType.TOPIC, "orders-", PREFIXED)),
        ("group/*", (ResourceType.GROUP, "*", LITERAL)),
        ("transactional-id/a/b", (ResourceType.TRANSACTIONAL_ID, "a/b", LITERAL)),
        ("user/User:bob", (ResourceType.USER, "User:bob", LITERAL)),
        ("cluster", (ResourceType.CLUSTER, CLUSTER_NAME, LITERAL)),
    ],
)
def test_acl_resources_are_parsed(text, expected):
    assert parse_pattern(text) == expected


@pytest.mark.parametrize("text", ["orders", "topic/", "topic", "any/x", "", "unknown/x"])
def test_invalid_acl_resource_is_refused(text):
    with pytest.raises(UserError) as caught:
        parse_pattern(text)
    assert caught.value.exit_code is Exit.USAGE


def test_acl_operations_are_parsed():
    assert parse_operations("read, DESCRIBE_CONFIGS,alter-configs") == [
        Operation.READ,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ]
    for text in ("", "reed", "any", "read,"):
        with pytest.raises(UserError):
            parse_operations(text)


async def test_acls_are_added_explained_and_removed(tmp_path, capsys):
    async with broker_client(tmp_path, **AUTHORIZER) as one:
        brokers = Brokers(bootstrap=one.cluster.bootstrap)

        async def tried(command, *words, **options):
            done = partial(command, *words, brokers=brokers, dry_run=True, **options)
            await trio.to_thread.run_sync(done)
            return capsys.readouterr().err

        async def run(command, *words, **options):
            done = partial(command, *words, brokers=brokers, **options)
            code = await trio.to_thread.run_sync(done)
            return code, capsys.readouterr().out

        async def explained(*words, **options):
            code, out = await run(acls.explain, *words, output="json", **options)
            told = json.loads(out)
            assert code == (Exit.OK if told["allowed"] else Exit.NO)
            return told["allowed"], told["by"]

        question = ("User:alice", "read", "topic/orders-eu")
        assert await explained(*question) == (False, "no ACL applies to the resource")
        await run(acls.add, "User:alice", "read,write", "topic/orders-*", host="10.0.0.1")
        await run(acls.add, "User:alice", "read", "topic/orders-eu", deny=True)
        await one.seen(lambda image: len(image.acls) == 3)
        again = ("User:alice", "read,alter", "topic/orders-*")
        told = await tried(acls.add, *again, host="10.0.0.1")
        assert told == "would add 1 ACL; nothing was changed\n"
        told = await tried(acls.remove, *again, host="10.0.0.1")
        assert told == "would remove 1 ACL; nothing was changed\n"
        with pytest.raises(UserError, match="there is no such ACL"):
            await tried(acls.remove, *again)
        assert len(one.image.acls) == 3
        found = json.loads((await run(acls.list_acls, "topic/orders-eu", output="json"))[1])
        assert [(row["permission"], row["resource"]) for row in found] == [
            ("allow", "topic/orders-*"),
            ("allow", "topic/orders-*"),
            ("deny", "topic/orders-eu"),
        ]
        assert json.loads((await run(acls.list_acls, "topic/other", output="json"))[1]) == []
        denied = "DENY READ to 'User:alice' from '*' on TOPIC:LITERAL:'orders-eu'"
        assert await explained(*question, host="10.0.0.1") == (False, denied)
        await run(acls.remove, "User:alice", "read", "topic/orders-eu", deny=True)
        await one.seen(lambda image: len(image.acls) == 2)
        allowed = "ALLOW READ to 'User:alice' from '10.0.0.1' on TOPIC:PREFIXED:'orders-'"
        assert await explained(*question, host="10.0.0.1") == (True, allowed)
        assert (await explained(*question, host="10.0.0.2"))[0] is False
        java = ("User:alice", "read", "topic/at-home")
        await run(acls.add, *java, host="0:0:0:0:0:0:0:1")
        await one.seen(lambda image: len(image.acls) == 3)
        told = await tried(acls.remove, *java, host="::1")
        assert told == "would remove 1 ACL; nothing was changed\n"
        with pytest.raises(UserError, match="there is no such ACL"):
            await run(acls.remove, *java, host="::2")
        await run(acls.remove, *java, host="::1")
        await one.seen(lambda image: len(image.acls) == 2)
        super_user = partial(acls.explain, "User:ANONYMOUS", "alter", "cluster", brokers=brokers)
        assert await trio.to_thread.run_sync(super_user) == Exit.NO
        assert "does not show its super.users" in capsys.readouterr().err
        with pytest.raises(UserError, match="there is no such ACL"):
            await run(acls.remove, "User:alice", "read", "topic/orders-eu", deny=True)
        with pytest.raises(UserError, match="more than one question"):
            await run(acls.explain, "User:alice", "read", "topic/orders-*")
