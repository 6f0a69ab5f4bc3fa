"""The sources of a config value, as numbers of the protocol."""

from enum import IntEnum


class ConfigSource(IntEnum):
    """Kafka's `ConfigSource`."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8
