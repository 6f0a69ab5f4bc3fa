from __future__ import annotations

import pytest

from tests.quorum.config_of import config_of
from trimaran.broker.groups.consumer.settings import (
    MigrationPolicy,
    configured,
)
from trimaran.node.config.config_def import ConfigError
from trimaran.quorum.metadata.image import ConfigsImage


def test_minimum_interval_applies_to_reconciling_members_too():
    key = "group.consumer.min.heartbeat.interval.ms"
    found = configured(config_of(**{key: "3000"}), ConfigsImage).of("g")
    assert found.reconciling_interval_ms_min == 3_000


def test_each_key_has_its_setting():
    settings = {
        "group.consumer.session.timeout.ms": ("session_timeout_ms", 50_000),
        "group.consumer.heartbeat.interval.ms": ("heartbeat_interval_ms", 6_000),
        "group.consumer.max.size": ("members_max", 7),
        "group.max.size": ("classic_members_max", 8),
        "group.consumer.regex.refresh.interval.ms": ("regex_refresh_interval_ms", 20_000),
        "group.consumer.assignment.interval.ms": ("assignment_interval_ms", 2_000),
    }
    config = config_of(**{key: str(value) for key, (_, value) in settings.items()})
    found = configured(config, ConfigsImage).of("g")
    assert {field: getattr(found, field) for field, _ in settings.values()} == dict(
        settings.values()
    )


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
