"""Variables of Apache Kafka's image that are not configuration keys: keystores and passwords in files of
/etc/kafka/secrets, and the JAAS file of `KAFKA_OPTS`.

Source: Kafka's script `configure` (docker/resources/common-scripts), `JaasContext.loadServerContext`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from trimaran.errors.user_error import Exit, UserError
from trimaran.node.security.mechanisms import MECHANISMS
from trimaran.settings.properties import PropertySetting
from trimaran.wire.security.sasl.jaas import LoginModule, parse_jaas_file

SECRETS = Path("/etc/kafka/secrets")
FILE_BYTES_MAX = 1 << 20  # a password or a JAAS file; a mistyped name must not load a log
# The keys that variables of the image become, and the keys for which they stand: a file, or the text of a file.
_FILES = {
    "ssl.keystore.filename": "ssl.keystore.location",
    "ssl.truststore.filename": "ssl.truststore.location",
}
_TEXTS = {
    "ssl.keystore.credentials": "ssl.keystore.password",
    "ssl.key.credentials": "ssl.key.password",
    "ssl.truststore.credentials": "ssl.truststore.password",
}
_OPTION = "-Djava.security.auth.login.config="
_SECTION = "KafkaServer"


def with_files(
    given: Mapping[str, PropertySetting], environ: Mapping[str, str], secrets: Path = SECRETS
) -> dict[str, PropertySetting]:
    """Returns the settings, with those of the files that they and `KAFKA_OPTS` name. Raises UserError."""
    found = dict(given)
    for name, key in _FILES.items():
        if (setting := found.pop(name, None)) is not None:
            found[key] = PropertySetting(str(secrets / setting.value), setting.origin)
    for name, key in _TEXTS.items():
        if (setting := found.pop(name, None)) is not None:
            text = _read(secrets / setting.value, setting.origin).rstrip("\n")
            found[key] = PropertySetting(text, setting.origin)
    return _logins(found, environ) | found


def _logins(
    given: Mapping[str, PropertySetting], environ: Mapping[str, str]
) -> dict[str, PropertySetting]:
    """Returns `listener.name.L.M.sasl.jaas.config` of each listener L and mechanism M in the JAAS file."""
    path = _jaas_path(environ.get("KAFKA_OPTS", ""))
    if path is None:
        return {}
    origin = f"{path}, named by KAFKA_OPTS"
    try:
        sections = parse_jaas_file(_read(path, "environment KAFKA_OPTS"))
    except ValueError as error:
        fix = "correct the file, or set listener.name.LISTENER.MECHANISM.sasl.jaas.config instead"
        raise UserError(
            f"cannot read the JAAS file {path}", str(error), fix, exit_code=Exit.USAGE
        ) from error
    found = {}
    for listener in _sasl_listeners(given):
        own = sections.get(f"{listener}.{_SECTION}", sections.get(_SECTION, []))
        enabled = _enabled(given, listener)
        for module in own:
            for name, mechanism in MECHANISMS.items():
                if mechanism.login_module == module.name and name in enabled:
                    key = f"listener.name.{listener}.{name.lower()}.sasl.jaas.config"
                    found[key] = PropertySetting(_text_of(module), origin)
    return found


def _jaas_path(options: str) -> Path | None:
    try:
        words = shlex.split(options)
    except ValueError:  # a quote is not closed; the shell would not have started Java
        words = options.split()
    paths = [word.removeprefix(_OPTION) for word in words if word.startswith(_OPTION)]
    return Path(paths[-1]) if paths else None


def _sasl_listeners(given: Mapping[str, PropertySetting]) -> Iterator[str]:
    """Yields the names of the listeners with SASL, in small letters as in keys."""
    protocols = dict(
        part.strip().partition(":")[::2]
        for part in _value(given, "listener.security.protocol.map").split(",")
    )
    for part in _value(given, "listeners").split(","):
        name = part.strip().partition("://")[0]
        if protocols.get(name, name).strip().upper().startswith("SASL_"):
            yield name.lower()


def _enabled(given: Mapping[str, PropertySetting], listener: str) -> set[str]:
    key = "sasl.enabled.mechanisms"
    named = _value(given, f"listener.name.{listener}.{key}") or _value(given, key) or "GSSAPI"
    return {name.strip().upper() for name in named.split(",")}


def _value(given: Mapping[str, PropertySetting], key: str) -> str:
    return given[key].value if key in given else ""


def _text_of(module: LoginModule) -> str:
    """Returns the login module as the value of a `sasl.jaas.config`."""
    options = (
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"'))
        for name, value in module.options.items()
    )
    return " ".join([module.name, "required", *options]) + ";"


def _read(path: Path, origin: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ValueError(f"it has more than {FILE_BYTES_MAX} bytes")
        return data.decode()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        fix = "mount the file there, readable for the user of the container"
        raise UserError(
            f"cannot read {path}", f"{why}; it is named by {origin}", fix, exit_code=Exit.USAGE
        ) from error
