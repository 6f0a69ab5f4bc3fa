"""The settings of a group's deliveries: defaults of the broker, and the group's own values within its bounds."""

from __future__ import annotations

import pytest
from immutables import Map

from tests.cluster.data_side import config
from trimaran.broker.sharing.rules import SharingRules
from trimaran.broker.sharing.settings import Sharing, SharingSettings, duration_ms
from trimaran.quorum.metadata.image import GROUP_RESOURCE, ConfigsImage


def settings(own=None, **server):
    image = ConfigsImage(Map({(GROUP_RESOURCE, "g"): Map(own)} if own else {}))
    return SharingSettings(config(**server), lambda: image).of("g")


def test_defaults_are_those_of_kafka():
    assert settings() == Sharing(SharingRules(2_000, 5, 30.0, True, False), "latest", False)
    assert settings().lock_ms == 30_000


def test_broker_sets_defaults():
    found = settings(
        group_share_partition_max_record_locks="100",
        group_share_delivery_count_limit="2",
        group_share_record_lock_duration_ms="15000",
    )
    assert found.rules == SharingRules(100, 2, 15.0)


def test_group_has_values_of_its_own():
    own = {
        "share.partition.max.record.locks": "500",
        "share.delivery.count.limit": "7",
        "share.record.lock.duration.ms": "20000",
        "share.renew.acknowledge.enable": "false",
        "share.auto.offset.reset": "by_duration:PT1H",
        "share.isolation.level": "read_committed",
    }
    assert settings(own) == Sharing(
        SharingRules(500, 7, 20.0, renews=False), "by_duration:PT1H", True
    )


@pytest.mark.parametrize(
    ("key", "given", "rules"),
    [
        ("share.partition.max.record.locks", "100", SharingRules(record_locks_max=100)),
        ("share.partition.max.record.locks", "4001", SharingRules(record_locks_max=4_000)),
        ("share.delivery.count.limit", "11", SharingRules(deliveries_max=10)),
        ("share.delivery.count.limit", "2", SharingRules(deliveries_max=2)),
        ("share.record.lock.duration.ms", "1000", SharingRules(lock_seconds=15.0)),
        ("share.record.lock.duration.ms", "60001", SharingRules(lock_seconds=60.0)),
    ],
)
def test_bounds_of_the_broker_hold(key, given, rules):
    assert settings({key: given}).rules == rules


def test_altered_configs_apply_at_once():
    def image(limit):
        own = Map({"share.delivery.count.limit": limit})
        return ConfigsImage(Map({(GROUP_RESOURCE, "g"): own}))

    current = image("3")
    known = SharingSettings(config(), lambda: current)
    first = known.of("g")
    assert known.of("g") is first
    assert known.of("h") is known.of("i")
    current = image("7")
    assert (first.rules.deliveries_max, known.of("g").rules.deliveries_max) == (3, 7)
    current = ConfigsImage()
    assert known.of("g") == known.of("h") == settings()


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("by_duration:PT0S", 0),
        ("by_duration:PT1.5S", 1_500),
        ("by_duration:PT1,5S", 1_500),
        ("by_duration:P1DT2H3M4S", 93_784_000),
        ("by_duration:P1DT-1H", 82_800_000),
        ("by_duration:pt2m", 120_000),
    ],
)
def test_durations_are_those_of_java(text, duration):
    assert duration_ms(text) == duration


@pytest.mark.parametrize(
    ("limit", "throttled"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5), (25, 13)]
)
def test_throttling_begins_at_half_the_deliveries(limit, throttled):
    rules = SharingRules(deliveries_max=limit)
    assert (rules.throttled_deliveries, rules.delivers_last_alone) == (throttled, limit > 2)
