"""A setting that overrides the properties file is reported."""

from __future__ import annotations

from immutables import Map

from tests.quorum.config_of import config_of
from trimaran.broker.process.server import overridden
from trimaran.quorum.metadata.image import BROKER_RESOURCE, ConfigsImage


def lines(cluster: dict[str, str], own: dict[str, str] | None = None, **file: object) -> list[str]:
    configs = {(BROKER_RESOURCE, ""): Map(cluster), (BROKER_RESOURCE, "1"): Map(own or {})}
    return list(overridden(config_of(**file), ConfigsImage(Map(configs))))


def test_overridden_setting_is_reported_with_its_line():
    (line,) = lines({"min.insync.replicas": "1"}, min_insync_replicas=2)
    assert line.startswith("test.properties:")
    assert line.endswith(
        "min.insync.replicas is not used here, as 1 was set for the running cluster"
        " (trimaran configs get broker min.insync.replicas)"
    )


def test_broker_setting_has_highest_precedence():
    (line,) = lines({"log.retention.ms": "5"}, {"log.retention.ms": "7"}, log_retention_ms=6)
    assert "as 7 was set for the running broker (trimaran configs get broker/1 log" in line
    assert lines({"log.retention.ms": "5"}, {"log.retention.ms": "7"}, log_retention_ms=7) == []


def test_equal_or_unset_values_are_not_reported():
    assert lines({"min.insync.replicas": " 2"}, min_insync_replicas="02") == []
    assert lines({"min.insync.replicas": "2", "some.key": "x"}) == []
    assert lines({"log.cleanup.policy": "compact,"}, log_cleanup_policy="compact") == []


def test_secrets_are_not_logged():
    keys = {"ssl_keystore_password": "mine"}
    (line,) = lines({}, {"ssl.keystore.password": "hidden"}, **keys)
    assert "hidden" not in line
    assert "mine" not in line
