"""The settings of streams groups: defaults, the group's own configs within the broker's bounds, refused values."""

import pytest
from immutables import Map

from tests.quorum.config_of import config_of
from trimaran.broker.groups.streams import configuring, descriptions, settings, topology
from trimaran.broker.groups.streams.settings import ConfiguredStreamsGroups, StreamsGroupSettings
from trimaran.node.config.config_def import ConfigError
from trimaran.quorum.metadata.image import GROUP_RESOURCE, ConfigsImage


def configs(*resources):
    return ConfigsImage(Map({(kind, name): Map(values) for kind, name, values in resources}))


def of(config, **own):
    given = configs((GROUP_RESOURCE, "g", {f"streams.{key}": text for key, text in own.items()}))
    return ConfiguredStreamsGroups(config, lambda: given).of("g")


def test_broker_sets_the_defaults():
    config = config_of(
        **{
            "group.streams.session.timeout.ms": "46000",
            "group.streams.heartbeat.interval.ms": "6000",
            "group.streams.initial.rebalance.delay.ms": "1",
            "group.streams.task.offset.interval.ms": "16000",
            "group.streams.acceptable.recovery.lag": "7",
            "group.streams.num.standby.replicas": "1",
            "group.streams.rack.aware.assignment.tags": "zone,rack",
            "group.streams.max.size": "9",
        }
    )
    found = ConfiguredStreamsGroups(config, ConfigsImage).of("g")
    assert found == StreamsGroupSettings(
        session_timeout_ms=46_000,
        heartbeat_interval_ms=6_000,
        initial_rebalance_delay_ms=1,
        task_offset_interval_ms=16_000,
        acceptable_recovery_lag=7,
        standby_replicas=1,
        rack_aware_tags=("zone", "rack"),
        members_max=9,
    )
    assert found.assignment_configs == {
        "num.standby.replicas": "1",
        "rack.aware.assignment.tags": "zone,rack",
    }


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("session.timeout.ms", "50000", "session_timeout_ms", 50_000),
        ("session.timeout.ms", "60001", "session_timeout_ms", 60_000),
        ("heartbeat.interval.ms", "4999", "heartbeat_interval_ms", 5_000),
        ("assignment.interval.ms", "15001", "assignment_interval_ms", 15_000),
        ("initial.rebalance.delay.ms", "0", "initial_rebalance_delay_ms", 0),
        ("task.offset.interval.ms", "14999", "task_offset_interval_ms", 15_000),
        ("acceptable.recovery.lag", "5", "acceptable_recovery_lag", 5),
        ("acceptable.recovery.lag", "0", "acceptable_recovery_lag", 0),
        ("num.standby.replicas", "3", "standby_replicas", 2),
        ("rack.aware.assignment.tags", "zone", "rack_aware_tags", ("zone",)),
        ("assignor.name", "sticky", "assignor", "sticky"),
    ],
)
def test_group_sets_its_own_within_the_bounds(key, text, field, value):
    found = of(config_of(), **{key: text})
    assert getattr(found, field) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("group.streams.assignors", "com.example.Mine"),
        ("group.streams.session.timeout.ms", "60001"),
        ("group.streams.num.standby.replicas", "3"),
        ("group.streams.task.offset.interval.ms", "14999"),
    ],
)
def test_contradictory_settings_prevent_start(key, value):
    broker = {
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    }
    with pytest.raises(ConfigError) as caught:
        config_of(**broker, **{key: value})
    assert caught.value.key == key


def test_bounds_of_streams_groups_are_documented():
    assert (
        settings.MEMBER_ID_CHARACTERS_MAX,
        settings.MEMBER_TEXT_BYTES_MAX,
        topology.SUBTOPOLOGIES_MAX,
        topology.TOPOLOGY_ENTRIES_MAX,
        topology.TOPOLOGY_BYTES_MAX,
        topology.ENTRY_BYTES,
        configuring.TASKS_MAX,
        descriptions.DESCRIPTION_BYTES_MAX,
        descriptions.NODE_BYTES,
    ) == (1_000, 65_536, 1_000, 7_000, 524_288, 8, 40_000, 262_144, 256)
