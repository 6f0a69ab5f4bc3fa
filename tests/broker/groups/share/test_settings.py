"""The settings of share groups: defaults, the group's own configs within the broker's bounds, refused values."""

import pytest

from tests.quorum.config_of import config_of
from trimaran.broker.groups.share.settings import configured
from trimaran.node.config.config_def import ConfigError
from trimaran.quorum.metadata.image import ConfigsImage


def of(config, group_id="g"):
    return configured(config, ConfigsImage).of(group_id)


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
