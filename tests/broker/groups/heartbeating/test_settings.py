"""The settings of all kinds whose members heartbeat: defaults, and a group's own configs within the broker's bounds."""

import pytest
from immutables import Map

from tests.quorum.config_of import config_of
from trimaran.broker.groups.consumer import settings as consumer
from trimaran.broker.groups.heartbeating.settings import (
    reconciling_interval_ms,
    reconciling_interval_ms_min,
)
from trimaran.broker.groups.share import settings as share
from trimaran.broker.groups.streams import settings as streams
from trimaran.quorum.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, ConfigsImage

CONFIGURED = {
    "consumer": consumer.configured,
    "share": share.configured,
    "streams": streams.ConfiguredStreamsGroups,
}
DEFAULTS = {
    "consumer": consumer.ConsumerGroupSettings(),
    "share": share.ShareGroupSettings(),
    "streams": streams.StreamsGroupSettings(),
}
each_kind = pytest.mark.parametrize("kind", CONFIGURED)


def configs(*resources):
    return ConfigsImage(Map({(kind, name): Map(values) for kind, name, values in resources}))


@each_kind
def test_defaults_are_those_of_the_keys(kind):
    assert CONFIGURED[kind](config_of(), ConfigsImage).of("g") == DEFAULTS[kind]


@each_kind
@pytest.mark.parametrize(
    ("name", "given", "effective"),
    [
        ("session.timeout.ms", 44_999, 45_000),
        ("session.timeout.ms", 45_001, 45_001),
        ("session.timeout.ms", 60_000, 60_000),
        ("session.timeout.ms", 60_001, 60_000),
        ("heartbeat.interval.ms", 4_999, 5_000),
        ("heartbeat.interval.ms", 7_000, 7_000),
        ("heartbeat.interval.ms", 15_001, 15_000),
        ("assignment.interval.ms", 0, 0),
        ("assignment.interval.ms", 15_001, 15_000),
    ],
)
def test_group_has_its_own_within_broker_bounds(kind, name, given, effective):
    own = configs((GROUP_RESOURCE, "g", {f"{kind}.{name}": str(given)}))
    groups = CONFIGURED[kind](config_of(), lambda: own)
    assert getattr(groups.of("g"), name.replace(".", "_")) == effective
    assert groups.of("other") == DEFAULTS[kind]


@each_kind
def test_altered_interval_applies_to_all_groups(kind):
    now = [ConfigsImage()]
    groups = CONFIGURED[kind](config_of(), lambda: now[0])
    assert groups.of("g").assignment_interval_ms == 1_000
    for_all = {f"group.{kind}.assignment.interval.ms": "300"}
    own = {f"{kind}.heartbeat.interval.ms": "7000"}
    now[0] = configs((BROKER_RESOURCE, "", for_all), (GROUP_RESOURCE, "g", own))
    found = groups.of("g")
    assert (found.heartbeat_interval_ms, found.assignment_interval_ms) == (7_000, 300)
    assert groups.of("other").assignment_interval_ms == 300
    now[0] = configs()
    assert groups.of("g") == DEFAULTS[kind]


@pytest.mark.parametrize("kind", ["consumer", "share"])
@pytest.mark.parametrize(
    ("value", "least"), [(None, 500), ("100", 500), ("501", 501), ("3000", 3_000), ("5000", 5_000)]
)
def test_explicit_minimum_applies_while_groups_reconcile(kind, value, least):
    keys = {} if value is None else {f"group.{kind}.min.heartbeat.interval.ms": value}
    assert reconciling_interval_ms_min(kind, config_of(**keys)) == least


@pytest.mark.parametrize(
    ("members", "interval"), [(1, 500), (250, 500), (251, 502), (2_499, 4_998), (2_501, 5_000)]
)
def test_interval_grows_with_number_of_members(members, interval):
    assert reconciling_interval_ms(members, 5_000, 500) == interval
