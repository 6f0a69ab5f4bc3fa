"""Settings of test clusters: an unknown key is a mistake of the test, not a key of a later version."""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.key_warnings import warning_of

_UNKNOWN = "unknown key"


def check_settings(settings: Mapping[str, str]) -> None:
    """Raises ConfigError for a key that no node knows. A key of Kafka that has no effect here is accepted."""
    for name, value in settings.items():
        if (warning := warning_of(name)) is not None and warning.startswith(_UNKNOWN):
            raise ConfigError(name, value, warning)
