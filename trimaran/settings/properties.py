"""Kafka's `.properties` files, environment and overrides, with the origin of every value.

Precedence, highest first: `--override key=value`, environment (`KAFKA_PROCESS_ROLES`, the rule of Apache Kafka's
container image), file, default. The same file boots Apache Kafka and us.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trimaran.errors.config import of_config
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.config.config_def import ConfigError
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import javaproperties

    from trimaran.node.config import providers
else:
    javaproperties = imported_later("javaproperties")
    providers = imported_later("trimaran.node.config.providers")

ENVIRONMENT_PREFIX = "KAFKA_"
BITNAMI_PREFIX = "KAFKA_CFG_"  # the prefix of keys in Bitnami's image
# Variables of Kafka's scripts that have the prefix but are not configuration keys.
NOT_KEYS = frozenset(
    {
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_HOME",
        "KAFKA_DIR",
        "KAFKA_PEERS",
        "KAFKA_BOOTSTRAP_SERVERS",
        "KAFKA_KRAFT_CLUSTER_ID",
    }
)


@dataclass(frozen=True, slots=True)
class PropertySetting:
    """A value and its origin: `file:line`, `environment NAME` or `--override`."""

    value: str
    origin: str


def read_file(path: Path) -> dict[str, PropertySetting]:
    """Reads a `.properties` file; a later line wins, as in Java."""
    try:
        return _parse(path, path.read_text(encoding="utf-8"))
    except OSError as error:
        why = error.strerror or str(error)
        fix = "name a .properties file that exists and that this user may read"
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        why = (
            f"line {line}, column {column}: the byte 0x{error.object[error.start]:02x} is not UTF-8"
        )
        fix = "save the file as UTF-8, or write the character as \\uXXXX"
    except ValueError as error:
        why = str(error)
        fix = "write a backslash as \\\\, and other characters as \\uXXXX with four hexadecimal digits"
    raise UserError(f"cannot read the configuration {path}", why, fix, exit_code=Exit.USAGE)


def _parse(path: Path, text: str) -> dict[str, PropertySetting]:
    """Parses a properties file. Raises ValueError if the text is invalid (the errors of javaproperties are
    ValueErrors).
    """
    settings, line = {}, 1
    for element in javaproperties.parse(text):
        if isinstance(element, javaproperties.KeyValue):
            settings[element.key] = PropertySetting(element.value, f"{path}:{line}")
        line += element.source.count("\n")
    return settings


def from_environment(environ: Mapping[str, str]) -> dict[str, PropertySetting]:
    """Maps `KAFKA_LOG_DIRS` to `log.dirs`; `__` means `_`, `___` means `-`. Bitnami's
    `KAFKA_CFG_LOG_DIRS` means the same, unless the other is set.
    """
    names = [name for name in environ if name.startswith(ENVIRONMENT_PREFIX)]
    return {
        key_of_variable(name): PropertySetting(environ[name], f"environment {name}")
        for name in sorted(names, key=lambda name: not name.startswith(BITNAMI_PREFIX))
        if name not in NOT_KEYS
    }


def key_of_variable(name: str) -> str:
    """Returns the configuration key of an environment variable."""
    body = name.removeprefix(BITNAMI_PREFIX).removeprefix(ENVIRONMENT_PREFIX).lower()
    return (
        body.replace("___", "\0")
        .replace("__", "\1")
        .replace("_", ".")
        .replace("\0", "-")
        .replace("\1", "_")
    )


def variable_of_key(key: str) -> str | None:
    """Returns the environment variable that sets a configuration key; None for a key with capital letters, which has
    none.
    """
    if key != key.lower():
        return None
    body = key.replace("_", "__").replace("-", "___").replace(".", "_")
    return ENVIRONMENT_PREFIX + body.upper()


def from_overrides(overrides: Sequence[str]) -> dict[str, PropertySetting]:
    """Parses `key=value` words of the command line."""
    settings = {}
    for word in overrides:
        key, separator, value = word.partition("=")
        if not separator:
            raise UserError(
                f"cannot use --override {word}",
                "it is not KEY=VALUE",
                "for example --override num.partitions=3",
                exit_code=Exit.USAGE,
            )
        settings[key.strip()] = PropertySetting(value.strip(), "--override")
    return settings


def load(
    path: Path, overrides: Sequence[str], environ: Mapping[str, str]
) -> dict[str, PropertySetting]:
    """Returns all settings of a node; for each key the origin with the highest precedence wins."""
    return read_file(path) | from_environment(environ) | from_overrides(overrides)


def resolved(
    settings: Mapping[str, PropertySetting], environ: Mapping[str, str]
) -> dict[str, PropertySetting]:
    """Returns the settings with references to external secrets replaced (`trimaran.node.config.providers`). Raises
    UserError.
    """
    try:
        return providers.resolve(settings, lambda one, value: replace(one, value=value), environ)
    except ConfigError as error:
        raise of_config(error) from error
