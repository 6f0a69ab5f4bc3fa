"""Followers of the metadata on every node: connection limits, and the features in ApiVersions."""

from __future__ import annotations

import pytest

from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import config, features, image_of, replay
from trimaran.node.listening.addresses import AddressBook
from trimaran.quorum.metadata.features import REGISTERED_FEATURES
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.serving.altered_connections import connections_of
from trimaran.quorum.serving.api_versions_features import api_versions_features
from trimaran.wire.records.features import FeatureLevelRecord

NODE_ID = "2"


@pytest.fixture
def connections():
    own = config_of(
        **{
            "process.roles": "broker",
            "node.id": NODE_ID,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "max.connections": "7",
        }
    )
    return connections_of(own, own.broker_listeners, AddressBook())


def test_altered_bounds_apply_to_node_at_once(connections, caplog):
    def publish(*records):
        connections.publish(replay(records), image_of(*records), None)
        return connections.quotas.bounds.connections_max

    assert connections.quotas.bounds.connections_max == 7
    assert publish(config("max.connections", "5", (4, "3"))) == 7
    assert publish(config("max.connections", "5", (2, NODE_ID))) == 7
    assert publish(config("max.connections", "6", (4, ""))) == 6
    own = config("max.connections", "4", (4, NODE_ID))
    assert publish(own) == 4
    assert publish(own, config("max.connections", "9", (4, ""))) == 4
    both = config("max.connections", "3", (4, NODE_ID)), config("max.connections", "8", (4, ""))
    assert publish(*both) == 3
    assert publish(config("max.connections", "4", (4, NODE_ID))) == 4
    before = connections.quotas.bounds
    assert publish(config("max.connections", "many", (4, NODE_ID))) == 4
    assert connections.quotas.bounds is before
    assert "many" in caplog.text


def test_limits_apply_to_names_resolved_later(connections):
    record = config("max.connections.per.ip.overrides", "a.example:3", (4, NODE_ID))
    connections.publish(replay([record]), image_of(record), None)
    assert connections.quotas.bounds.per_ip == {}
    connections.book._known["a.example"] = ("10.0.0.1",)
    for changed in connections.book.changed:
        changed()
    assert connections.quotas.bounds.per_ip == {"10.0.0.1": 3}


def test_features_show_supported_and_finalized_levels():
    told = api_versions_features(EMPTY, 0)
    assert told.supported == {
        registered_feature.name: (registered_feature.min_level, registered_feature.max_level)
        for registered_feature in REGISTERED_FEATURES
    }
    assert told.finalized == {}
    transactions = FeatureLevelRecord(name="transaction.version", feature_level=2)
    image = image_of(features(27), transactions)
    told = api_versions_features(image, 1)
    assert told.finalized == {"metadata.version": 27, "transaction.version": 2, "kraft.version": 1}
    assert told.finalized_epoch == image.provenance.offset == 10
    assert "kraft.version" not in api_versions_features(image, 0).finalized
