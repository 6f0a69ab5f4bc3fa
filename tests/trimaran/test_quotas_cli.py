"""`trimaran quotas` against a broker, and the meaning of its arguments."""

import json
from functools import partial

import pytest
import trio

from tests.broker.handlers.broker_client import broker_client
from trimaran.cli import quotas
from trimaran.cli.connect import Brokers
from trimaran.cli.quotas import parse_value, parse_words
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import entity_text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["user=alice"], ({"user": "alice"}, [])),
        (["user", "client-id=etl"], ({"user": None, "client-id": "etl"}, [])),
        (["user=CN=a,O=b", "x=1"], ({"user": "CN=a,O=b"}, ["x=1"])),
        (["ip=::1", "y"], ({"ip": "::1"}, ["y"])),
        (["user="], ({"user": ""}, [])),
    ],
)
def test_entity_is_parsed_from_words(words, expected):
    entity, others = parse_words(words)
    assert (entity, others) == expected
    assert parse_words(entity_text(entity).split(" "))[0] == entity


def test_entity_has_each_type_once():
    with pytest.raises(UserError) as caught:
        parse_words(["user=alice", "user"])
    assert caught.value.exit_code is Exit.USAGE


def test_quota_values_are_parsed():
    assert parse_value("request_percentage=12.5") == ("request_percentage", 12.5)
    for text in ("producer_byte_rate", "producer_byte_rate=", "producer_byte_rate=1MB"):
        with pytest.raises(UserError):
            parse_value(text)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (quotas.list_quotas, ["alice"]),
        (quotas.set_quotas, ["producer_byte_rate=1"]),
        (quotas.set_quotas, ["user=alice"]),
        (quotas.delete, ["producer_byte_rate"]),
    ],
)
def test_meaningless_quota_is_refused_before_request(command, words):
    with pytest.raises(UserError) as caught:
        command(*words, brokers=Brokers(bootstrap="127.0.0.1:1"))
    assert caught.value.exit_code is Exit.USAGE


async def test_quotas_are_set_listed_and_deleted(tmp_path, capsys):
    async with broker_client(tmp_path) as one:
        brokers = Brokers(bootstrap=one.cluster.bootstrap)

        async def run(command, *words, **options):
            await trio.to_thread.run_sync(partial(command, *words, brokers=brokers, **options))
            return capsys.readouterr()

        async def listed(*words):
            rows = json.loads((await run(quotas.list_quotas, *words, output="json")).out)
            return [(row["entity"], row["quota"], row["value"]) for row in rows]

        rate, share = "producer_byte_rate=1048576", "request_percentage=12.5"
        tried = await run(quotas.set_quotas, "user=alice", rate, dry_run=True)
        assert tried.err == f"would set {rate} for user=alice\n"
        assert await listed() == []
        await run(quotas.set_quotas, "user=alice", rate, share)
        await run(quotas.set_quotas, "client-id=etl", "user=alice", rate)
        await run(quotas.set_quotas, "user", "controller_mutation_rate=5")
        await run(quotas.set_quotas, "ip=10.0.0.7", "connection_creation_rate=3")
        await one.seen(lambda image: len(image.quotas) == 5)
        of_alice = [
            ("user=alice", "producer_byte_rate", 1048576),
            ("user=alice", "request_percentage", 12.5),
            ("user=alice client-id=etl", "producer_byte_rate", 1048576),
        ]
        assert await listed("user=alice") == of_alice
        assert await listed() == [
            ("ip=10.0.0.7", "connection_creation_rate", 3),
            ("user", "controller_mutation_rate", 5),
            *of_alice,
        ]
        await run(quotas.delete, "user=alice", "request_percentage")
        await one.seen(lambda image: len(image.quotas) == 4)
        await run(quotas.delete, "user=alice", dry_run=True)
        gone = await run(quotas.delete, "user=alice")
        assert gone.err == "deleted producer_byte_rate for user=alice\n"
        await one.seen(lambda image: len(image.quotas) == 3)
        assert await listed("user=alice") == of_alice[2:]
        for words in (["user=alice"], ["user", "producer_byte_rate"]):
            with pytest.raises(UserError, match="there is no such quota"):
                await run(quotas.delete, *words)
        with pytest.raises(UserError, match="must be greater than 0"):
            await run(quotas.set_quotas, "user=alice", "producer_byte_rate=-1")
        with pytest.raises(UserError, match="Empty user not supported"):
            await run(quotas.set_quotas, "user=", rate)
