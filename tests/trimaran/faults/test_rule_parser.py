"""Rules from keyword arguments."""

import pytest

from trimaran.faults.actions import (
    AdvertiseAddress,
    AnswerError,
    ChangeField,
    DelayFrame,
    DropFrame,
    EndConnection,
    EndMoment,
    ErrorPlace,
    FaultTime,
    HoldFrame,
    Side,
)
from trimaran.faults.conditions import FieldCondition
from trimaran.faults.plan_error import PlanError
from trimaran.faults.rule_parser import parse_rule
from trimaran.faults.rules import RULE_NAME_CHARS_MAX
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address
from trimaran.wire.messages.registry import ApiKey


def parsed(**given):
    return parse_rule(given, name="a")


def actions_of(**given):
    return parsed(api="Fetch", **given).actions(0)


def test_rule_has_the_parts_that_keywords_name():
    rule = parsed(
        api="Fetch",
        topic="orders",
        partition=0,
        version="4-12",
        client_id="svc-*",
        where="max_wait_ms >= 500",
        error="NOT_LEADER_OR_FOLLOWER",
        times=3,
        after=2,
        every=5,
        once_per_connection=True,
    )
    match, schedule = rule.match, rule.schedule
    assert rule.name == "a"
    assert match.apis == {ApiKey.FETCH}
    assert match.versions == Versions(4, 12)
    assert (match.topic, match.partitions, match.client_id) == ("orders", {0}, "svc-*")
    assert match.where == (FieldCondition("max_wait_ms", ">=", 500),)
    assert match.item_roles == {"topic", "partition"}
    assert (schedule.times, schedule.after, schedule.every) == (3, 2, 5)
    assert schedule.once_per_connection
    assert rule.actions(0) == (AnswerError(ErrorCode.NOT_LEADER_OR_FOLLOWER),)


def test_api_is_named_by_key_or_list():
    assert parsed(api=1).match.apis == {ApiKey.FETCH}
    assert parsed(api=["produce", 1]).match.apis == {ApiKey.PRODUCE, ApiKey.FETCH}
    assert parsed().match.apis == frozenset()


@pytest.mark.parametrize(
    ("given", "action"),
    [
        (
            {"error": 6, "place": "items", "applied": True},
            AnswerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorPlace.ITEMS, applied=True),
        ),
        ({"delay": 0.5}, DelayFrame(FaultTime(0.5, 0.5), Side.REQUEST)),
        ({"delay": [2, 1], "side": "response"}, DelayFrame(FaultTime(1, 2), Side.RESPONSE)),
        (
            {"delay": {"mean": 0.2, "most": 1}},
            DelayFrame(FaultTime(0, 1, 0.2), Side.REQUEST),
        ),
        ({"drop": "response"}, DropFrame(Side.RESPONSE)),
        ({"hold": "request", "released_by": "b"}, HoldFrame(Side.REQUEST, "b")),
        ({"reset": "middle"}, EndConnection(EndMoment.MIDDLE, by_reset=True)),
        (
            {"change": {"response.throttle_time_ms": 5000}},
            ChangeField(Side.RESPONSE, "throttle_time_ms", 5000),
        ),
    ],
)
def test_keyword_gives_its_action(given, action):
    assert actions_of(**given) == (action,)


def test_address_to_advertise_is_parsed():
    rule = parsed(api="Metadata", advertise="[::1]:9", leaders="stale")
    assert AdvertiseAddress(Address("::1", 9)) in rule.actions(0)


def test_sequence_gives_actions_of_each_application():
    rule = parsed(api="Fetch", sequence=[{"error": "UNKNOWN_TOPIC_ID"}, {}, {"drop": "request"}])
    assert [rule.actions(n) for n in range(5)] == [
        (AnswerError(ErrorCode.UNKNOWN_TOPIC_ID),),
        (),
        (DropFrame(Side.REQUEST),),
        (DropFrame(Side.REQUEST),),
        (DropFrame(Side.REQUEST),),
    ]
    assert rule.times is None
    once = parsed(api="Fetch", sequence=[{}, {}], once_through=True, times=3)
    assert once.times == 2


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"api": "Fecth"}, "api", "did you mean Fetch?"),
        ({"api": 500}, "api", "no API 500"),
        ({"api": []}, "api", "matches nothing"),
        ({"api": "Fetch", "eror": "NONE"}, "eror", "did you mean error?"),
        ({"api": "Fetch", "error": "NOT_LEADER"}, "error", "no error code 'NOT_LEADER'"),
        ({"api": "Fetch", "error": "NOT_CORDINATOR"}, "error", "did you mean NOT_COORDINATOR?"),
        ({"api": "Fetch", "error": "NONE"}, "error", "no error code 'NONE'"),
        ({"api": "Fetch", "error": 0}, "error", "no error code 0"),
        ({"api": "Fetch", "where": "max_wait_mx == 1"}, "where", "did you mean max_wait_ms?"),
        ({"api": "Fetch", "where": "max_wait_ms"}, "where", "is not a condition"),
        ({"where": "max_wait_ms == 1"}, "where", "no API"),
        ({"api": "Fetch", "where": "max_wait_ms.x == 1"}, "where", "has no fields"),
        ({"api": "Fetch", "change": {"response.x": 1}}, "change", "no field of FetchResponse 'x'"),
        ({"api": "Fetch", "change": {"throttle_time_ms": 1}}, "change", "not name a side"),
        ({"api": "Heartbeat", "topic": "orders"}, "topic", "names no topic"),
        ({"api": "Fetch", "group": "g"}, "group", "names no group"),
        ({"api": "Fetch", "version": 99}, "version", "Fetch has 0 to 18"),
        ({"api": "Fetch", "version": "9-4"}, "version", "write"),
        ({"api": "Fetch", "times": 0}, "times", "whole number from 1"),
        ({"api": "Fetch", "probability": 0}, "probability", "matches nothing"),
        ({"api": "Fetch", "probability": 1.5}, "probability", "number from 0 to 1"),
        ({"api": "Fetch", "partition": -1}, "partition", "whole number from 0"),
        ({"api": "Fetch", "topic": ""}, "topic", "write a text"),
        ({"api": "Fetch", "delay": -1}, "delay", "number from 0"),
        ({"api": "Fetch", "place": "items"}, "place", "without error"),
        ({"api": "Fetch", "drop": "both"}, "drop", "request, response"),
        ({"api": "Fetch", "drop": "request", "close": "after"}, "close", "exclude"),
        ({"api": "Fetch", "sequence": []}, "sequence", "no list of steps"),
        ({"api": "Fetch", "sequence": [{}], "delay": 1}, "delay", "beside a sequence"),
        ({"api": "Fetch", "leaders": "stale"}, "leaders", "is for Metadata"),
        ({"api": "Metadata", "advertise": "nowhere"}, "advertise", "HOST:PORT"),
        ({"api": "Metadata", "corrupt": "response"}, "corrupt", "is for Fetch, ShareFetch"),
        ({"api": "Fetch", "script": "x"}, "script", "Python function"),
        ({"api": "Fetch", "name": "x" * (RULE_NAME_CHARS_MAX + 1)}, "name", "at most"),
        (
            {"api": "Fetch", "version": "0-6", "error": "NOT_COORDINATOR", "place": "response"},
            "error",
            "no place for this error",
        ),
        (
            {"api": "Heartbeat", "error": "NOT_COORDINATOR", "place": "items"},
            "error",
            "no place for this error",
        ),
    ],
)
def test_impossible_rule_is_refused_with_remedy(given, key, says):
    with pytest.raises(PlanError) as caught:
        parsed(**given)
    assert caught.value.key == key
    assert says in str(caught.value)
    assert isinstance(caught.value, ValueError)
