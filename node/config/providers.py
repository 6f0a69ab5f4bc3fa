"""Secrets stored elsewhere: `${file:PATH:KEY}`, `${env:NAME}` and `${dir:PATH:FILE}` in configuration values.

`config.providers` and `config.providers.NAME.class`, with the names of Kafka's own classes, define the prefixes. A
password is then neither in a file that many users can read nor in an argument that `ps` shows. Source:
`FileConfigProvider`, `EnvVarConfigProvider`, `DirectoryConfigProvider` of Kafka, KIP-297, KIP-887, KIP-993.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import javaproperties

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import Setting
from trimaran.wire.security.small_files import read_small_file

S = TypeVar("S", bound=Setting)
Lookup = Callable[[str, str], str]

PREFIX = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
_VARIABLE = re.compile(r"\$\{([^}:]+):(?:([^}]*?):)?([^}:]+)\}")
# The maximum size of a file, which has only a few secrets.
_FILE_BYTES_MAX = 1 << 20


class ProviderError(ValueError):
    """A variable cannot be resolved; the message gives the cause, but never the value."""


def resolve(
    settings: Mapping[str, S], with_value: Callable[[S, str], S], environ: Mapping[str, str]
) -> dict[str, S]:
    """Returns the settings with their variables resolved; variables of undefined providers stay unchanged.

    Raises:
        ConfigError: a provider is unknown, or has no such value.
    """
    providers = _providers(settings, environ)
    if not providers:
        return dict(settings)
    found = {}
    for key, setting in settings.items():
        if "${" not in setting.value or key.startswith(PREFIX):
            found[key] = setting
            continue
        try:
            found[key] = with_value(setting, resolve_text(setting.value, providers))
        except ProviderError as error:
            raise ConfigError(
                key,
                setting.value,
                str(error),
                origin=setting.origin,
                fix="write the value there, or correct the variable",
            ) from None
    return found


def resolve_text(text: str, providers: Mapping[str, Lookup]) -> str:
    """Resolves the variables of one value. Raises ProviderError."""

    def value(found: re.Match[str]) -> str:
        lookup = providers.get(found[1])
        return found[0] if lookup is None else lookup(found[2] or "", found[3])

    return _VARIABLE.sub(value, text)


def command_line_providers(environ: Mapping[str, str]) -> dict[str, Lookup]:
    """Returns the providers for secrets in arguments: `file`, `env` and `dir`, which need no `config.providers`."""
    return {
        "file": lambda path, key: _of_file(path, key, ""),
        "env": lambda _path, name: _of_environment(environ, name, ""),
        "dir": lambda path, name: _of_directory(path, name, ""),
    }


def _providers(settings: Mapping[str, S], environ: Mapping[str, str]) -> dict[str, Lookup]:
    named = settings.get(PREFIX)
    names = (
        [] if named is None else [part.strip() for part in named.value.split(",") if part.strip()]
    )
    return {name: _provider(name, settings, environ) for name in names}


def _provider(name: str, settings: Mapping[str, S], environ: Mapping[str, str]) -> Lookup:
    key = f"{PREFIX}.{name}.class"
    setting = settings.get(key)
    given = "" if setting is None else setting.value.strip()

    def param(which: str) -> str:
        found = settings.get(f"{PREFIX}.{name}.param.{which}")
        return "" if found is None else found.value.strip()

    kind = given.removeprefix(_PACKAGE)
    if kind == "FileConfigProvider":
        return lambda path, word: _of_file(path, word, param("allowed.paths"))
    if kind == "EnvVarConfigProvider":
        return lambda _path, word: _of_environment(environ, word, param("allowlist.pattern"))
    if kind == "DirectoryConfigProvider":
        return lambda path, word: _of_directory(path, word, param("allowed.paths"))
    known = "FileConfigProvider, EnvVarConfigProvider, DirectoryConfigProvider"
    raise ConfigError(
        key,
        given,
        "classes of Java do not run here; only some are known by their names",
        origin="" if setting is None else setting.origin,
        fix=f"set it to {_PACKAGE} and one of {known}",
    )


def _of_environment(environ: Mapping[str, str], name: str, pattern: str) -> str:
    if name not in environ or (pattern and not re.fullmatch(pattern, name)):
        raise ProviderError(f"the environment has no variable {name} that may be read")
    return environ[name]


def _of_file(path: str, key: str, allowed: str) -> str:
    text = _read(path, allowed)
    try:
        values = javaproperties.loads(text)
    except ValueError as error:
        raise ProviderError(f"{path} is not a properties file") from error
    if key not in values:
        raise ProviderError(f"there is no {key} in {path}")
    return str(values[key])


def _of_directory(path: str, name: str, allowed: str) -> str:
    if name in ("", ".", "..") or "/" in name:
        raise ProviderError(f"{name} is not a file in {path}")
    return _read(str(Path(path, name)), allowed)


def _read(path: str, allowed: str) -> str:
    """Returns the text of a file, which must be in one of the `allowed` places if there are any."""
    real = os.path.realpath(path)
    places = [os.path.realpath(part.strip()) for part in allowed.split(",") if part.strip()]
    if places and not any(os.path.commonpath([real, place]) == place for place in places):
        raise ProviderError(f"{path} is outside allowed.paths")
    try:
        return read_small_file(real, _FILE_BYTES_MAX).decode()
    except OSError as error:
        raise ProviderError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ProviderError(f"{path} is not text") from None
