"""The keys that enable the mirror in a controller."""

import pytest

from trimaran.node.config.server import parse
from trimaran.running.controller_role import is_mirror_enabled
from trimaran.settings.properties import PropertySetting


@pytest.mark.parametrize(
    ("ours", "kafkas", "enabled"),
    [
        (None, None, False),
        (None, "true", True),
        ("true", None, True),
        ("false", "true", False),
        ("true", "false", True),
    ],
)
def test_our_key_overrides_kafkas(ours, kafkas, enabled):
    given = {"trimaran.zk.mirror.enable": ours, "zookeeper.metadata.migration.enable": kafkas}
    node = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.listener.names": "C",
        "listeners": "C://h:1",
        "listener.security.protocol.map": "C:PLAINTEXT",
        "controller.quorum.bootstrap.servers": "h:1",
    }
    texts = node | {key: value for key, value in given.items() if value}
    config = parse({key: PropertySetting(value, "") for key, value in texts.items()})
    assert is_mirror_enabled(config) is enabled
