from __future__ import annotations

import pytest
from immutables import Map

from tests.quorum.config_of import config_of
from trimaran.broker.groups.consumer.settings import (
    ConsumerGroupSettings,
    MigrationPolicy,
    configured,
)
from trimaran.node.config.config_def import ConfigError
from trimaran.quorum.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, ConfigsImage


def configs(*resources):
    return ConfigsImage(Map({(kind, name): Map(values) for kind, name, values in resources}))


def test_the_defaults_are_those_of_the_keys():
    found = configured(config_of(), ConfigsImage).of("g")
    assert found == ConsumerGroupSettings()


def test_altered_settings_apply_within_broker_bounds():
    now = [configs()]
    groups = configured(config_of(), lambda: now[0])
    assert groups.of("g").heartbeat_interval_ms == 5_000
    own = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "1000000"}
    for_all = {"group.consumer.assignment.interval.ms": "300"}
    now[0] = configs((GROUP_RESOURCE, "g", own), (BROKER_RESOURCE, "", for_all))
    found = groups.of("g")
    assert (found.heartbeat_interval_ms, found.session_timeout_ms) == (7_000, 60_000)
    assert found.assignment_interval_ms == groups.of("other").assignment_interval_ms == 300
    assert groups.of("other").heartbeat_interval_ms == 5_000
    now[0] = configs((GROUP_RESOURCE, "g", {"consumer.session.timeout.ms": "1"}))
    assert groups.of("g").session_timeout_ms == 45_000
    now[0] = configs()
    assert groups.of("g") == ConsumerGroupSettings()


def test_minimum_interval_applies_to_reconciling_members_too():
    key = "group.consumer.min.heartbeat.interval.ms"
    assert configured(config_of(), ConfigsImage).of("g").reconciling_interval_ms_min == 500
    for value, least in (("3000", 3_000), ("5000", 5_000), ("100", 500)):
        found = configured(config_of(**{key: value}), ConfigsImage).of("g")
        assert found.reconciling_interval_ms_min == least


def test_assignors_are_found_by_name_or_class():
    config = config_of(
        **{
            "group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform",
            "group.consumer.migration.policy": "UPGRADE",
        }
    )
    found = configured(config, ConfigsImage).of("g")
    assert found.assignors == ("range", "uniform")
    assert found.migration is MigrationPolicy.UPGRADE
    assert not found.migration.may_downgrade


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("group.consumer.assignors", "com.example.Mine"),
        ("group.consumer.migration.policy", "sideways"),
        ("group.coordinator.rebalance.protocols", "consumer"),
    ],
)
def test_contradictory_settings_prevent_start(key, value):
    with pytest.raises(ConfigError) as caught:
        config_of(**{key: value})
    assert caught.value.key == key
