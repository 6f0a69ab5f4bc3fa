"""Configs that a broker alters or refuses itself: those of its process, and those that depend on its disks and
files.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import trio

from tests.broker.calls import call, finished
from tests.broker.handlers.configs import BROKER, GROUP, LOGGER, TOPIC, incremental, replacing
from tests.checks import check_each
from tests.cluster.data_side import open_harness
from trimaran.broker.handlers.alter_configs import alter_configs
from trimaran.broker.handlers.config_changes import (
    NONE,
    _check_own_listeners,
    resource_of,
    respond_here,
)
from trimaran.broker.handlers.incremental_alter_configs import incremental_alter_configs
from trimaran.quorum.controller.configs.configs import incremental_response, legacy_response
from trimaran.wire.errors import ErrorCode, KafkaError

E = ErrorCode
CORDONED = "cordoned.log.dirs"
LOGGER_NAME = "broker.some_logger"
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    yield harness
    harness.directory.close(broker_epoch=None)


@pytest.fixture
def level():
    """Returns the level of a logger that tests may alter."""
    logger = logging.getLogger(LOGGER_NAME)
    yield lambda: logger.level
    logger.setLevel(logging.NOTSET)


def answers(harness, message, **options):
    """Returns the error code by resource, or None if the controller decides."""
    answered: dict = {}
    options = {"validate_only": False, "may_alter_loggers": True, **options}
    trio.run(
        finished,
        respond_here(message.resources, harness.contexts.administration, answered, **options),
    )
    return [
        answered[resource_of(resource)].code if resource_of(resource) in answered else None
        for resource in message.resources
    ]


def test_logger_levels_need_alter_configs_on_cluster(harness, level):
    alters = incremental((LOGGER, "11", {LOGGER_NAME: "ERROR"}))
    denied = answers(harness, alters, may_alter_loggers=False)
    assert (denied, level()) == ([E.CLUSTER_AUTHORIZATION_FAILED], logging.NOTSET)
    assert (answers(harness, alters, validate_only=True), level()) == ([E.NONE], logging.NOTSET)
    assert (answers(harness, alters), level()) == ([E.NONE], logging.ERROR)
    elsewhere = incremental((LOGGER, "12", {LOGGER_NAME: "DEBUG"}))
    assert (answers(harness, elsewhere), level()) == ([E.INVALID_REQUEST], logging.ERROR)
    old = replacing((LOGGER, "11", {LOGGER_NAME: "DEBUG"}))
    assert (answers(harness, old), level()) == ([E.INVALID_REQUEST], logging.ERROR)


def test_only_broker_local_refusals_are_answered_here(harness):
    rows = {
        (TOPIC, "t"): None,
        (GROUP, "g"): None,
        (BROKER, ""): None,
        (BROKER, "11"): None,
        (BROKER, "12"): E.INVALID_REQUEST,
        (BROKER, "x"): E.INVALID_REQUEST,
        (5, "x"): E.INVALID_REQUEST,
    }

    def check(row):
        (kind, name), expected = row
        for make in (incremental, replacing):
            assert answers(harness, make((kind, name, {"a": "b"}))) == [expected]

    check_each(rows.items(), check)
    twice = incremental((TOPIC, "t", {}), (TOPIC, "u", {}), (TOPIC, "t", {}))
    assert answers(harness, twice) == [E.INVALID_REQUEST, None, E.INVALID_REQUEST]


def cordoning(value, operation=SET, name=CORDONED):
    message = incremental((BROKER, "11", {name: value}))
    message.resources[0].configs[0].config_operation = operation
    return message


def test_only_directories_of_this_broker_are_cordoned(harness, tmp_path):
    here = str(tmp_path)
    for operation in (SET, APPEND):
        assert answers(harness, cordoning(here, operation)) == [None]
        assert answers(harness, cordoning("/nowhere", operation)) == [E.INVALID_REQUEST]
    for operation in (DELETE, SUBTRACT):
        assert answers(harness, cordoning("/nowhere", operation)) == [None]
    assert answers(harness, cordoning(None)) == [None]
    assert answers(harness, cordoning("/nowhere", name="log.cleaner.threads")) == [None]
    assert answers(harness, replacing((BROKER, "11", {CORDONED: "/nowhere"}))) == [
        E.INVALID_REQUEST
    ]
    harness.set_image(configs={(BROKER, "11"): {CORDONED: here}})
    assert answers(harness, cordoning(here, APPEND)) == [None], "it is there already"


def test_another_broker_is_refused_before_its_configs(harness):
    message, answered = incremental((BROKER, "12", {CORDONED: "/nowhere"})), {}
    options = {"validate_only": False, "may_alter_loggers": True}
    trio.run(
        finished,
        respond_here(message.resources, harness.contexts.administration, answered, **options),
    )
    [error] = answered.values()
    assert error.message == "Unexpected broker id, expected 11, but received 12"


async def refusals(harness, message, answered=()):
    found = {key: KafkaError(E.NONE) for key in answered}
    before = set(found)
    await finished(_check_own_listeners(message.resources, harness.contexts.administration, found))
    return {key: error.code for key, error in found.items() if key not in before}


async def test_only_own_listener_changes_are_checked(harness):
    key = "listener.name.plaintext.ssl.keystore.location"
    refused = {(BROKER, "11"): E.INVALID_REQUEST}
    unknown = {"listener.name.nowhere.ssl.keystore.location": "/no/file"}
    for make in (incremental, replacing):
        assert await refusals(harness, make((BROKER, "11", unknown))) == refused
        for kind, name in ((BROKER, ""), (TOPIC, "11"), (GROUP, "11")):
            assert await refusals(harness, make((kind, name, unknown))) == {}
        assert await refusals(harness, make((BROKER, "11", {"num.io.threads": "3"}))) == {}
    answered = await refusals(harness, incremental((BROKER, "11", unknown)), [(BROKER, "11")])
    assert answered == {}, "it was refused before"
    taken_back = incremental((BROKER, "11", {key: ""}))
    taken_back.resources[0].configs[0].config_operation = DELETE
    assert await refusals(harness, taken_back) == {}
    assert NONE.code is E.NONE


async def test_values_are_checked_when_set_not_deleted(harness):
    wrong = {"listener.name.plaintext.max.connections": "many"}
    found = {}
    for operation in (SET, DELETE, APPEND, SUBTRACT):
        message = incremental((BROKER, "11", wrong))
        message.resources[0].configs[0].config_operation = operation
        found[operation] = bool(await refusals(harness, message))
    assert found == {SET: True, DELETE: False, APPEND: True, SUBTRACT: False}
    # A request that replaces all configs removes the existing ones.
    harness.set_image(configs={(BROKER, "11"): wrong})
    fine = {"listener.name.plaintext.max.connections.per.ip": "5"}
    assert await refusals(harness, replacing((BROKER, "11", fine))) == {}
    assert await refusals(harness, incremental((BROKER, "11", fine))) == {
        (BROKER, "11"): E.INVALID_REQUEST
    }


class Forwarder:
    """Forwards to a controller that answers each resource with a different code."""

    def __init__(self):
        self.forwarded = []

    def forward(self, request, _call, response_type):
        yield None
        self.forwarded.append([resource_of(resource) for resource in request.resources])
        codes = {
            resource_of(resource): KafkaError(E.POLICY_VIOLATION) for resource in request.resources
        }
        respond = (
            incremental_response if "Incremental" in response_type.__name__ else legacy_response
        )
        return respond(codes)


@pytest.mark.parametrize("make", [incremental, replacing])
async def test_controller_answers_remaining_resources(harness, make):
    handler = incremental_alter_configs if make is incremental else alter_configs
    unknown = {"listener.name.nowhere.ssl.keystore.location": "/no/file"}
    message = make(
        (TOPIC, "t", {"retention.ms": "5"}),
        (BROKER, "11", unknown),
        (BROKER, "", {"num.io.threads": "3"}),
        (77, "x", {}),
        (GROUP, "g", {}),
    )
    forwarder = Forwarder()
    context = replace(harness.contexts.administration, forwarder=forwarder)
    answer = await finished(handler(message, context, call(message, 1)))
    assert [
        (response.resource_type, response.resource_name, response.error_code)
        for response in answer.responses
    ] == [
        (77, "x", E.INVALID_REQUEST),
        (BROKER, "11", E.INVALID_REQUEST),
        (TOPIC, "t", E.POLICY_VIOLATION),
        (BROKER, "", E.POLICY_VIOLATION),
        (GROUP, "g", E.POLICY_VIOLATION),
    ]
    assert forwarder.forwarded == [[(TOPIC, "t"), (BROKER, ""), (GROUP, "g")]]
    alone = make((77, "x", {}))
    answer = await finished(handler(alone, context, call(alone, 1)))
    assert [response.error_code for response in answer.responses] == [E.INVALID_REQUEST]
    assert len(forwarder.forwarded) == 1, "nothing is left for the controller"
