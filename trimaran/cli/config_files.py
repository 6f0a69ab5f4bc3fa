"""`config check|explain|effective|diff|init`: checks and prints properties files of nodes without starting a node."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.node_file import ConfigFile, Overrides
from trimaran.cli.output import Format, put, say, show_data, show_fields, show_rows
from trimaran.deployment import properties_file as deployment_properties_file
from trimaran.errors.user_error import Exit, UserError
from trimaran.metrics import serving
from trimaran.node.config import (
    client_metrics_keys,
    config_def,
    dynamic_keys,
    group_keys,
    key_warnings,
    server,
    server_keys,
    topic_keys,
)
from trimaran.node.security import listener_security as security_listener_security
from trimaran.node.security import logins as security_logins
from trimaran.node.text.wording import counted
from trimaran.quorum.serving import authorization
from trimaran.running import controller_role
from trimaran.settings import node_config, properties
from trimaran.wire.identity import NodeId
from trimaran.wire.security.tls import validity as tls_validity

if TYPE_CHECKING:
    from trimaran.node.config.config_def import ConfigKey
    from trimaran.node.config.server import ServerConfig
    from trimaran.settings.properties import PropertySetting

HIDDEN = "(hidden)"
DEFAULT = "default"
ERROR, WARNING = "error", "warning"
FINDING_COLUMNS = ("level", "key", "origin", "why", "fix")
_WHEN = {
    "read-only": "when a node starts",
    "per-broker": "while it runs: trimaran configs set broker/ID",
    "cluster-wide": "while it runs: trimaran configs set broker, or broker/ID",
}


def check(*, config: ConfigFile, override: Overrides = None, output: Format = "table") -> int:
    """Checks the properties file of a node: reports all errors and warnings together. Exit code 1 if the node would not
    start.

    Certificates and other security files are read. Directories, addresses and other nodes are not checked.

    Args:
        config: The properties file of the node.
    """
    found = list(_findings(properties.load(config, override or [], os.environ)))
    errors = sum(finding["level"] == ERROR for finding in found)
    if found or output not in ("table", "wide"):
        show_rows(found, output, columns=FINDING_COLUMNS)
    verdict = "a node does not start with it" if errors else "a node starts with it"
    told = f"{counted(errors, ERROR)}, {counted(len(found) - errors, WARNING)}"
    say(f"{config}: {verdict}; {told}")
    return Exit.NO if errors else Exit.OK


def _findings(settings: Mapping[str, PropertySetting]) -> Iterator[dict[str, str]]:
    """Returns warnings, then errors: first those of single keys; errors of combinations only if there are no others."""
    for key, setting in settings.items():
        if (warning := key_warnings.warning_of(key)) is not None:
            yield _finding(WARNING, key, setting.origin, warning, "leave it out, or correct it")
    try:
        settings = properties.resolved(settings, os.environ)
    except UserError as error:
        yield _finding(ERROR, "", "", f"{error.what}: {error.why}", error.fix)
        return
    wrong: list[config_def.ConfigError] = []
    for key, setting in settings.items():
        try:
            server.value_of(key, setting)
        except config_def.ConfigError as error:
            wrong.append(error)
    if not wrong:
        yield from _certificate_findings(settings)
        wrong = _wrong_together(settings)
    for finding in wrong:
        yield _finding(
            ERROR, finding.key, finding.origin, finding.why, finding.fix or "correct the value"
        )


def _certificate_findings(settings: Mapping[str, PropertySetting]) -> Iterator[dict[str, str]]:
    """Returns a warning for each certificate that has expired, expires soon, or is not valid yet: a node starts with
    it.
    """
    try:
        config = server.parse(settings)
    except config_def.ConfigError:
        return
    for doubt in security_listener_security.certificate_doubts(config, datetime.now(UTC)):
        yield _finding(WARNING, doubt.key, doubt.origin, doubt.text, tls_validity.RENEW)


def _finding(level: str, key: str, origin: str, why: str, fix: str) -> dict[str, str]:
    return {"level": level, "key": key, "origin": origin, "why": why, "fix": fix}


def _wrong_together(settings: Mapping[str, PropertySetting]) -> list[config_def.ConfigError]:
    """Returns the errors of combinations of settings that are each valid by themselves, without repetitions."""
    try:
        config = server.parse(settings)
    except config_def.ConfigError as error:
        return [error]
    wrong: dict[str, config_def.ConfigError] = {}
    for try_out in _trials(config):
        try:
            try_out()
        except config_def.ConfigError as error:
            wrong.setdefault(f"{error.key} {error.why}", error)
    return list(wrong.values())


def _trials(config: ServerConfig) -> Iterator[Callable[[], object]]:
    """Returns functions that create the objects which a node creates from its configuration before it serves; each
    raises ConfigError.
    """
    own = config.broker_listeners if config.is_broker else []
    logins = security_logins.Logins()
    for endpoint in [*own, *(config.controller_listeners if config.is_controller else [])]:
        yield partial(security_listener_security.listener_security, config, endpoint.name, logins)
    yield partial(logins.load_keys, only_files=True)
    yield partial(security_listener_security.controller_security, config)
    if config.is_broker:
        yield partial(security_listener_security.inter_broker_security, config)
    if config.is_controller:
        yield partial(controller_role.has_mirror, config)
    yield partial(authorization.authorizer_of, config)
    yield lambda: serving.address_of(config["trimaran.metrics.listener"])


def explain(
    key: Annotated[
        str, Parameter(help="A config key, as retention.ms, or listener.name.tls.ssl.client.auth.")
    ],
    /,
    *,
    output: Format = "table",
) -> None:
    """Explains a config key: its type and default, where and when it can be set, and its effect here."""
    found = [_explained(of, each_key) for of, each_key in _keys_named(key)]
    if not found:
        raise _unknown(key)
    if show_data(found, output):
        return
    for index, fields in enumerate(found):
        if index:
            put()
        show_fields({name: value for name, value in fields.items() if value is not None}, output)


def _tables() -> dict[str, Mapping[str, ConfigKey]]:
    """Returns all keys by the resource to which they belong."""
    return {
        "node": server_keys.SERVER_CONFIGS,
        "broker": server_keys.DYNAMIC_ONLY,
        "listener": {
            k: listener_config
            for k, listener_config in server_keys.LISTENER_CONFIGS.items()
            if k not in server_keys.SERVER_CONFIGS
        },
        "topic": topic_keys.TOPIC_CONFIGS,
        "group": group_keys.GROUP_CONFIGS,
        "client-metrics": client_metrics_keys.CLIENT_METRICS_CONFIGS,
    }


def _keys_named(key: str) -> Iterator[tuple[str, ConfigKey]]:
    for of, table in _tables().items():
        if (found := table.get(key)) is not None:
            yield of, found
    if (found := _listener_key(key) or key_warnings.base_key(key)) is not None:
        yield "listener", found


def _listener_key(key: str) -> ConfigKey | None:
    name = key.removeprefix(server.LISTENER_PREFIX).partition(".")[2]
    return server_keys.listener_config(name) if key.startswith(server.LISTENER_PREFIX) else None


def _explained(of: str, key: ConfigKey) -> dict[str, Any]:
    is_node, is_listener = of == "node", of == "listener"
    when = f"at any time: trimaran configs set {of}/NAME"
    if is_listener:
        when = _WHEN[
            "read-only"
            if dynamic_keys.dynamic_key(f"{server.LISTENER_PREFIX}x.{key.name}") is None
            else "per-broker"
        ]
    elif of in ("node", "broker"):
        when = _WHEN[key.scope]
    brokers = (
        [name for name, _ in topic_keys.SERVER_SYNONYMS.get(key.name, ())] if of == "topic" else []
    )
    return {
        "key": key.name,
        "of": of,
        "type": key.kind,
        "default": "required" if key.required else key.default_text,
        "default_by": ", ".join(brokers) or None,
        "in_dev_mode": server_keys.DEV_MODE.get(key.name) if is_node else None,
        "set": when,
        "for_one_listener": f"listener.name.LISTENER.{key.name}"
        if is_listener or (is_node and key.name in server_keys.LISTENER_CONFIGS)
        else None,
        "environment": properties.variable_of_key(key.name) if is_node else None,
        "importance": key.importance,
        "sensitive": key.sensitive,
        "acts": not (key.no_effect or key.only_default),
        "doc": key.documentation,
    }


def _unknown(key: str) -> UserError:
    names = sorted({name for table in _tables().values() for name in table})
    close = difflib.get_close_matches(key, names, 3, cutoff=0.6)
    return UserError(
        f"there is no config key {key}",
        f"did you mean {' or '.join(close)}?" if close else "no key has a similar name",
        "docs/configuration.md lists all keys",
        exit_code=Exit.NO,
    )


def effective(
    *,
    config: ConfigFile,
    override: Overrides = None,
    every: Annotated[bool, Parameter(name=["-a", "--all"])] = False,
    output: Format = "table",
) -> None:
    """Shows the configs with which a node would run, and where each was set: file, environment or --override.

    Secrets are hidden.

    Args:
        config: The properties file of the node.
        every: Also show configs that have their default.
    """
    settings = properties.load(config, override or [], os.environ)
    parsed = node_config.parse_config(settings)
    rows = list(_effective(settings, parsed))
    if every:
        known = {row["key"] for row in rows}
        rows += [_row(key, None, DEFAULT) for key in parsed if key not in known]
    rows.sort(key=lambda row: str(row["key"]))
    show_rows(rows, output, columns=("key", "value", "default", "origin"), noun="key")


def _effective(
    settings: Mapping[str, PropertySetting], parsed: ServerConfig
) -> Iterator[dict[str, Any]]:
    """Returns the configs; variables are not expanded, since their values may be secrets."""
    for key, setting in settings.items():
        yield _row(key, setting.value.strip(), setting.origin)
    for key, value in parsed.explicit.items():
        if key not in settings:
            yield _row(key, server_keys.SERVER_CONFIGS[key].text_of(value), parsed.origins[key])


def _row(key: str, value: str | None, origin: str) -> dict[str, Any]:
    """Returns a row of the table; None means the default."""
    default = _default(key)
    return {
        "key": key,
        "value": default if value is None else _shown(key, value),
        "default": default,
        "origin": origin,
    }


def _known(key: str) -> ConfigKey | None:
    return server_keys.SERVER_CONFIGS.get(key) or _listener_key(key) or key_warnings.base_key(key)


def _default(key: str) -> str | None:
    known = _known(key)
    return None if known is None or known.default is None else known.default_text


def _shown(key: str, value: str) -> str:
    """Returns the value to show; the value of an unknown key is hidden, since it may be a plugin's secret."""
    known = _known(key)
    is_secret = known is None or known.kind == "password"
    return HIDDEN if is_secret and value else value


def diff(first: Path, second: Path, /, *, output: Format = "table") -> int:
    """Shows how two properties files differ in meaning: an explicit default is not a difference.

    Exit code 1 if they differ. Secrets are compared, and hidden.

    Args:
        first: A properties file.
        second: Another properties file.
    """
    one, other = properties.read_file(first), properties.read_file(second)
    rows = [
        {"key": key, "first": _text_of(key, one), "second": _text_of(key, other)}
        for key in sorted({*one, *other})
        if _meaning(key, one) != _meaning(key, other)
    ]
    show_rows(rows, output, columns=("key", "first", "second"), noun="difference")
    return Exit.NO if rows else Exit.OK


def _text_of(key: str, settings: Mapping[str, PropertySetting]) -> str | None:
    return _shown(key, settings[key].value.strip()) if key in settings else _default(key)


def _meaning(key: str, settings: Mapping[str, PropertySetting]) -> object:
    """Returns the parsed value; if it cannot be parsed, its text."""
    known = _known(key)
    setting = settings.get(key)
    if setting is None:
        return None if known is None else known.default
    try:
        return setting.value.strip() if known is None else known.parse(setting.value)
    except config_def.ConfigError:
        return setting.value.strip()


def init(
    *,
    roles: Annotated[str, Parameter(help="controller, broker or broker,controller.")],
    node_id: NodeId,
    controllers: Annotated[
        str, Parameter(help="HOST:PORT,… of all controllers, this one included.")
    ],
    host: Annotated[
        str, Parameter(help="The name or address that others reach this node by.")
    ] = "localhost",
    port: Annotated[int, Parameter(help="The port where clients reach a broker.")] = 9092,
    log_dirs: str | None = None,
    every: Annotated[bool, Parameter(name=["-a", "--all"])] = False,
) -> None:
    """Prints a commented properties file for a new node: the required keys, and others as comments.

    Args:
        node_id: A number that no other node of the cluster has.
        log_dirs: Directories for its data; by default /var/lib/kafka/ROLES-ID.
        every: Show all keys that have an effect, not only the important ones.
    """
    keys = [key for key in _tables()["node"].values() if not (key.no_effect or key.only_default)]
    chosen: Iterable[ConfigKey] = [
        key for key in keys if not key.internal and (every or key.importance == "high")
    ]
    of = roles.split(",")
    place = log_dirs or f"/var/lib/kafka/{'-'.join(of)}-{node_id}"
    sys.stdout.write(
        deployment_properties_file.properties_file(
            of, node_id, controllers, host, port, place, chosen
        )
    )
