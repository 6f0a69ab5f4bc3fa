"""The effective value on a node: altered for it, altered for all, from its file, or the default."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cluster.data_side import config
from tests.quorum.metadata.build import config as altered
from tests.quorum.metadata.build import image_of
from trimaran.broker.metadata.topic_settings import TopicSettingsSource
from trimaran.quorum.metadata.image import ConfigsImage
from trimaran.quorum.serving.node_configs import NodeConfigs

OWN, ALL, OTHER, TOPIC = (4, "11"), (4, ""), (4, "12"), (2, "11")
KEY, IN_FILE, DEFAULT = "num.io.threads", 5, 8
LISTENER_KEY = "listener.name.plaintext.max.connections"


class Node:
    """A node with its file, and its alterations so far."""

    def __init__(self, **file):
        self.image = ConfigsImage()
        self.asked = 0
        self.configs = NodeConfigs(config(**file), self._configs)

    def _configs(self):
        self.asked += 1
        return self.image

    def alter(self, *records):
        self.image = image_of(*records).configs


def test_most_specific_setting_applies():
    node = Node(num_io_threads=str(IN_FILE))
    assert node.configs.now(KEY) == IN_FILE
    assert Node().configs.now(KEY) == DEFAULT
    own, of_all = altered(KEY, "3", OWN), altered(KEY, "4", ALL)
    for records, expected in (
        ([altered(KEY, "6", OTHER), altered(KEY, "7", TOPIC)], IN_FILE),
        ([of_all], 4),
        ([own], 3),
        ([own, of_all], 3),
        ([of_all, altered(KEY, "6", OTHER)], 4),
        ([], IN_FILE),
    ):
        node.alter(*records)
        assert node.configs.now(KEY) == expected, records
        assert node.configs.now(KEY) == expected, "asked again"


def test_old_list_is_read_without_empty_elements():
    node = Node()
    node.alter(altered("log.cleanup.policy", "compact,", ALL))
    assert node.configs.now("log.cleanup.policy") == ["compact"]
    metadata = SimpleNamespace(image=SimpleNamespace(configs=node.image))
    settings = TopicSettingsSource(config(), cast(Any, metadata), 11)
    assert settings.value("t", "cleanup.policy") == ["compact"]


def test_key_absent_from_file_uses_altered_or_default():
    key = "leader.replication.throttled.rate"
    node = Node()
    nothing = node.configs.now(key)
    node.alter(altered(key, "1000", ALL))
    assert node.configs.now(key) == 1000 != nothing
    assert nothing > 1 << 40, "no rate is the largest there is"


def test_listener_value_overrides_that_of_node():
    def of(node, listener="PLAINTEXT"):
        return node.configs.now_of_listener(listener, "max.connections")

    node = Node(max_connections="9")
    assert of(node) == 9
    node.alter(altered("max.connections", "8", ALL))
    assert of(node) == 8
    node.alter(altered("max.connections", "8", ALL), altered(LISTENER_KEY, "7", ALL))
    assert (of(node), of(node, "OTHER")) == (7, 8)
    node.alter(altered(LISTENER_KEY, "6", OWN), altered(LISTENER_KEY, "7", ALL))
    assert of(node) == 6
    own = Node(max_connections="9", listener_name_plaintext_max_connections="5")
    assert of(own) == 5
    own.alter(altered("max.connections", "8", ALL))
    assert of(own) == 5
    own.alter(altered(LISTENER_KEY, "4", ALL))
    assert of(own) == 4


def test_undeclared_key_is_no_config():
    with pytest.raises(KeyError):
        Node().configs.now("no.such.key")
