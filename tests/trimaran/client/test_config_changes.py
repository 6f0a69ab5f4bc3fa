"""Changes of configs that change nothing, as brokers show the configs."""

import pytest

from tests.trimaran.client.scripted import Client
from trimaran.client.changes import APPEND, DELETE, SET, SUBTRACT
from trimaran.client.config_changes import without_effect
from trimaran.quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from trimaran.wire.messages import describe_configs

TOPIC, BROKER, ALL_BROKERS, STATIC, DEFAULT = 1, 2, 3, 4, 5


def config(name, value, source, *synonyms, sensitive=False):
    return describe_configs.DescribeConfigsResourceResult(
        name=name,
        value=None if sensitive else value,
        read_only=False,
        config_source=source,
        is_sensitive=sensitive,
        synonyms=[
            describe_configs.DescribeConfigsSynonym(name=name, value=text, source=of)
            for text, of in synonyms
        ],
    )


def asked(change, *configs, kind=TOPIC_RESOURCE, name="t", code=0):
    result = describe_configs.DescribeConfigsResult(
        error_code=code,
        error_message=None,
        resource_type=kind,
        resource_name=name,
        configs=list(configs),
    )
    client = Client(describe_configs.DescribeConfigsResponse(results=[result]))
    found = without_effect(client, kind, name, [change])
    assert client.request.resources[0].configuration_keys == [change[0]]
    return found == [change]


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (("k", SET, "a,b"), True),
        (("k", SET, "a"), False),
        (("k", DELETE, None), False),
        (("k", APPEND, "b"), True),
        (("k", APPEND, "b,c"), False),
        (("k", SUBTRACT, "c"), True),
        (("k", SUBTRACT, "c,a"), False),
    ],
)
def test_value_of_resource_decides(change, is_same):
    assert asked(change, config("k", "a,b", TOPIC)) == is_same


@pytest.mark.parametrize("source", [STATIC, DEFAULT])
def test_inherited_value_is_not_set(source):
    """A value that is set stays when the default changes, so setting it is a change."""
    inherited = config("k", "a", source)
    assert [asked(change, inherited) for change in (("k", SET, "a"), ("k", APPEND, "a"))] == [
        False,
        False,
    ]
    assert asked(("k", DELETE, None), inherited)


def test_value_below_another_is_found():
    """A broker's own value hides that of all brokers."""
    row = config("k", "own", BROKER, ("own", BROKER), ("all", ALL_BROKERS))
    assert asked(("k", SET, "own"), row, kind=BROKER_RESOURCE, name="11")
    assert asked(("k", SET, "all"), row, kind=BROKER_RESOURCE, name="")
    assert not asked(("k", SET, "own"), row, kind=BROKER_RESOURCE, name="")


def test_unknown_secret_and_hidden_configs_change():
    assert not asked(("k", SET, "a"))
    assert asked(("k", DELETE, None))
    assert not asked(("k", SET, "a"), config("k", "a", TOPIC, sensitive=True))
    assert not asked(("k", SET, "a"), code=29)
