"""The settings of share groups: defaults, the group's own configs within the broker's bounds, refused values."""

import pytest
from immutables import Map

from tests.quorum.config_of import config_of
from trimaran.broker.groups.share.settings import ShareGroupSettings, configured
from trimaran.node.config.config_def import ConfigError
from trimaran.quorum.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, ConfigsImage


def configs(*resources):
    return ConfigsImage(Map({(kind, name): Map(values) for kind, name, values in resources}))


def of(config, group_id="g"):
    return configured(config, ConfigsImage).of(group_id)


def test_the_defaults_are_those_of_the_keys():
    assert of(config_of()) == ShareGroupSettings()


def test_altered_settings_apply_within_broker_bounds():
    now = [configs()]
    groups = configured(config_of(), lambda: now[0])
    assert groups.of("g") == ShareGroupSettings()
    own = {"share.heartbeat.interval.ms": "7000", "share.session.timeout.ms": "1000000"}
    for_all = {"group.share.assignment.interval.ms": "300"}
    now[0] = configs((GROUP_RESOURCE, "g", own), (BROKER_RESOURCE, "", for_all))
    found = groups.of("g")
    assert (found.heartbeat_interval_ms, found.session_timeout_ms) == (7_000, 60_000)
    assert found.assignment_interval_ms == groups.of("other").assignment_interval_ms == 300
    assert groups.of("other").heartbeat_interval_ms == 5_000
    now[0] = configs((GROUP_RESOURCE, "g", {"share.assignment.interval.ms": "15001"}))
    assert groups.of("g").assignment_interval_ms == 15_000


def test_minimum_interval_applies_to_waiting_members_too():
    key = "group.share.min.heartbeat.interval.ms"
    for value, least in (("3000", 3_000), ("100", 500)):
        assert of(config_of(**{key: value})).waiting_interval_ms_min == least


def test_retry_waits_for_the_commit_timeout():
    keys = {"group.share.initialize.retry.interval.ms": "1", "offsets.commit.timeout.ms": "7000"}
    assert of(config_of(**keys)).initialize_retry_ms == 7_000


def test_assignor_is_found_by_name_or_class():
    name = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"
    assert of(config_of(**{"group.share.assignors": name})).assignor == "simple"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("group.share.assignors", "com.example.Mine"),
        ("group.share.assignors", "simple,simple"),
        ("group.share.max.size", "1001"),
    ],
)
def test_contradictory_settings_prevent_start(key, value):
    with pytest.raises(ConfigError) as caught:
        config_of(**{key: value})
    assert caught.value.key == key
