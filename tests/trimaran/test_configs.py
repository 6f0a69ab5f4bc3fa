"""How `configs` and `features` parse their arguments."""

from contextlib import nullcontext
from functools import partial

import pytest
import trio

from tests.broker.handlers.broker_client import broker_client
from tests.trimaran.client.scripted import Client
from trimaran.cli.configs import (
    APPEND,
    SET,
    SUBTRACT,
    Resource,
    _is_resource,
    list_resources,
    parse_pair,
    parse_resource,
    set_configs,
)
from trimaran.cli.connect import Brokers
from trimaran.cli.features import parse_level
from trimaran.errors.refused import UnknownName
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesResponse,
)


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("topic/orders", Resource(2, "orders", None)),
        ("TOPIC/a/b", Resource(2, "a/b", None)),
        ("broker/11", Resource(4, "11", 11)),
        ("broker", Resource(4, "", None)),
        ("broker-logger/11", Resource(8, "11", 11)),
        ("client-metrics/m", Resource(16, "m", None)),
        ("group/readers", Resource(32, "readers", None)),
    ],
)
def test_resource_is_its_type_and_name(text, resource):
    assert parse_resource(text) == resource


@pytest.mark.parametrize(
    "text", ["", "orders", "topic", "topic/", "broker/x", "broker-logger", "planet/earth"]
)
def test_invalid_resource_is_explained_in_three_lines(text):
    with pytest.raises(UserError) as caught:
        parse_resource(text)
    assert caught.value.exit_code == Exit.USAGE
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("kind", ["group", "GROUP"])
def test_listed_resources_are_named_by_type(kind, monkeypatch, capsys):
    found = ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=type_)
            for name, type_ in (("readers", 32), ("app", 32), ("orders", 2))
        ]
    )
    client = Client(found)
    monkeypatch.setattr(Brokers, "connected", lambda _: nullcontext(client))
    list_resources(kind, output="kafka")
    assert capsys.readouterr().out.split() == ["app", "readers"]
    assert client.request.resource_types == [32]


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("retention.ms=1000", ("retention.ms", SET, "1000")),
        ("a=", ("a", SET, "")),
        ("a=b=c", ("a", SET, "b=c")),
        ("cleanup.policy+=compact", ("cleanup.policy", APPEND, "compact")),
        ("cleanup.policy-=delete", ("cleanup.policy", SUBTRACT, "delete")),
    ],
)
def test_pair_sets_adds_or_removes(text, change):
    assert parse_pair(text) == change


@pytest.mark.parametrize("text", ["", "a", "=b", "+=b"])
def test_change_without_values_is_refused(text):
    with pytest.raises(UserError, match="is not a config to set"):
        parse_pair(text)


def test_level_is_a_number_or_release():
    assert parse_level("metadata.version=30") == ("metadata.version", 30)
    assert parse_level("metadata.version=4.0") == ("metadata.version", 25)
    for text in ("", "30", "metadata.version", "metadata.version=4.9", "=3", "a=-1", "a=4.3"):
        with pytest.raises(UserError, match="is not a feature level"):
            parse_level(text)


async def test_unknown_broker_config_is_reported(tmp_path, capsys):
    async with broker_client(tmp_path) as one:
        brokers = Brokers(bootstrap=one.cluster.bootstrap)
        for pair, is_said in (("log.retention.msec=5", True), ("log.retention.ms=5", False)):
            await trio.to_thread.run_sync(partial(set_configs, "broker", pair, brokers=brokers))
            told = capsys.readouterr().err
            assert f"changed broker: {pair.partition('=')[0]}" in told
            assert (
                "no config of brokers, kept for plug-ins: log.retention.msec" in told
            ) is is_said


async def test_several_resources_change_together_or_not_at_all(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("a", "b-1", "b-2", "c")
        brokers = Brokers(bootstrap=one.cluster.bootstrap)

        async def change(*words, **options):
            await trio.to_thread.run_sync(partial(set_configs, *words, brokers=brokers, **options))

        def changed():
            by_resource = one.image.configs.by_resource
            return {name for (_, name), found in by_resource.items() if "retention.ms" in found}

        for words in (
            ("topic/a", "topic/nope", "topic/no*", "retention.ms=5"),
            ("topic/a", "group/no*", "retention.ms=5"),
        ):
            with pytest.raises(UnknownName) as raised:
                await change(*words)
            assert (raised.value.exit_code, changed()) == (Exit.REFUSED, set())
        with pytest.raises(UserError, match="Unknown topic config name: nope"):
            await change("topic/a", "topic/c", "retention.ms=5", "nope=1")
        await change("topic/a", "topic/b-*", "retention.ms=5", dry_run=True)
        assert changed() == set()
        await change("topic/a", "topic/b-*", "retention.ms=5", "segment.ms=7")
        assert changed() == {"a", "b-1", "b-2"}


def test_word_is_resource_by_type_or_slash():
    words = ("group/a=b", "broker", "BROKER", "topic/t", "retention.ms", "a=b/c", "a+=/x")
    assert [word for word in words if _is_resource(word)] == list(words[:4])
