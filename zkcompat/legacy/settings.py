"""The companion that obeys old tools, as the configuration wants it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from node.config.config_def import ConfigError
from node.config.server_keys import SERVER_CONFIGS
from wire.security.listener import PLAINTEXT, ClientSecurity
from zkcompat.legacy.admin import LegacyAdmin
from zkcompat.legacy.controller import ActiveController
from zkcompat.legacy.orders import Kind
from zkcompat.mirroring.feed import ImageFeed

ENABLE = "trimaran.zk.legacy.admin.enable"
KINDS = "trimaran.zk.legacy.admin.kinds"


def obeyed_kinds(properties: Mapping[str, str]) -> Collection[Kind]:
    """None of them without the option. ValueError names key and value."""
    try:
        values = {
            key: SERVER_CONFIGS[key].parse(properties[key])
            if key in properties
            else SERVER_CONFIGS[key].default
            for key in (ENABLE, KINDS)
        }
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return frozenset(map(Kind, values[KINDS])) if values[ENABLE] else frozenset()


def legacy_admin(
    feed: ImageFeed, kinds: Collection[Kind], security: ClientSecurity = PLAINTEXT
) -> LegacyAdmin:
    """Asks the leader that the feed follows."""
    return LegacyAdmin(ActiveController(feed.leader_address, security), kinds)
