"""The declared broker configs, and those of them that may be altered while brokers run.

- keys with a scope other than read-only, and `DYNAMIC_ONLY`. Keys of logs and topics take effect immediately for each
  topic without its own value. Keys without an effect are accepted, because Kafka's tools set some of them (throttles
  of a reassignment), and the nodes log the reason (`quorum/serving/idle_configs.py`).
- keys of one listener (`listener.name.LISTENER.…`): certificates and the users of SASL/PLAIN, for new connections.

All other declared keys are refused. Undeclared keys are stored, as Kafka stores them for plug-ins. Source: Kafka's
`DynamicBrokerConfig`, `DynamicConfig`, KIP-226.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trimaran.node.config.config_def import ConfigError, ConfigKey, at_least
from trimaran.node.config.security_keys import LISTENER_JAAS, TLS
from trimaran.node.config.server_keys import DYNAMIC_ONLY, LISTENER_CONFIGS, SERVER_CONFIGS
from trimaran.node.config.synonyms import broker_synonyms
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.sensitive import LISTENER_KEY

NOTHING: Mapping[str, str] = {}
# The keys that may be altered for a single listener; `quorum/serving/altered_security.py` applies them.
_ALTERABLE_OF_LISTENERS = frozenset(key.name for key in (*TLS, *LISTENER_JAAS)) | {
    "ssl.client.auth"
}
# Kafka's `SslConfigs.RECONFIGURABLE_CONFIGS`: dynamic, but only for single listeners.
SECURITY = frozenset(key.name for key in TLS if key.name.startswith(("ssl.key", "ssl.trust")))
# Apache Kafka allows altering these keys; the reasons why this is refused here.
NOT_WHILE_RUNNING = {
    **dict.fromkeys(
        ("listeners", "listener.security.protocol.map"), "listeners are made when a node starts"
    ),
    **dict.fromkeys(
        ("sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"),
        "mechanisms are made when a node starts",
    ),
    "sasl.jaas.config": "users are set by listener.name.LISTENER.MECHANISM.sasl.jaas.config",
    "principal.builder.class": "Java classes are not loaded",
    **{
        key.name: "altered for one listener, by listener.name.LISTENER.KEY"
        for key in TLS
        if key.name in LISTENER_CONFIGS and not key.name.startswith("trimaran.")
    },
    **dict.fromkeys(
        (
            *("ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.protocol"),
            *("ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm"),
        ),
        "TLS is OpenSSL's, not Java's",
    ),
    "ssl.client.auth": "altered for one listener, by listener.name.LISTENER.KEY",
}
# Listener keys that must have the same value on all brokers.
_OF_ALL_BROKERS = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)


def dynamic_key(name: str) -> ConfigKey | None:
    """Returns the declaration of a key that may be set while a broker runs; None for all other keys."""
    if (listener := LISTENER_KEY.fullmatch(name)) is not None:
        base = listener["base"]
        if base in _OF_ALL_BROKERS:
            return _positive(SERVER_CONFIGS[base])
        return LISTENER_CONFIGS.get(base) if base in _ALTERABLE_OF_LISTENERS else None
    if (key := DYNAMIC_ONLY.get(name)) is not None:
        return key
    key = SERVER_CONFIGS.get(name)
    if key is None or key.scope == "read-only":
        return None
    return _positive(key) if name in _OF_ALL_BROKERS else key


def declared_key(name: str) -> ConfigKey | None:
    """Returns the declared key of a broker config: KEY for `listener.name.LISTENER.KEY`; None for undeclared configs,
    such as those of Kafka plug-ins. Source: `KafkaConfig.configType`.
    """
    for synonym in (name, *broker_synonyms(name)):
        key = SERVER_CONFIGS.get(synonym) or DYNAMIC_ONLY.get(synonym)
        if key is not None:
            return None if key.undeclared else key
    return None


def _positive(key: ConfigKey) -> ConfigKey:
    """Returns the key with a minimum of 1. A file may refuse all connections; an alteration may not, because no client
    could connect to revert it.
    """
    return replace(key, check=at_least(1))


def check_broker_configs(changes: Mapping[str, str], *, of_one_broker: bool) -> None:
    """Checks configs that are to be set; deleting a config is always valid.

    Raises:
        KafkaError: INVALID_REQUEST if a key cannot be altered while a broker runs, or not for all brokers, or a value
            is invalid; the message is Kafka's.
    """
    fixed = [key for key in changes if dynamic_key(key) is None and declared_key(key) is not None]
    _refuse(
        [key for key in fixed if key not in SECURITY],
        "Cannot update these configs dynamically",
        NOT_WHILE_RUNNING,
    )
    _refuse(
        [key for key in fixed if key in SECURITY],
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    for name, text in changes.items():
        key = dynamic_key(name)
        try:
            if key is not None:
                key.parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.answer) from error
    if not of_one_broker:
        _refuse(
            [key for key in changes if _is_of_one_broker(key)],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _is_of_one_broker(name: str) -> bool:
    listener = LISTENER_KEY.fullmatch(name)
    if listener is not None:
        return listener["base"] not in _OF_ALL_BROKERS
    key = dynamic_key(name)
    return key is not None and key.scope == "per-broker"


def _refuse(keys: list[str], why: str, reasons: Mapping[str, str] = NOTHING) -> None:
    """Raises the error for the keys; appends our reason to Kafka's message if Kafka would not refuse."""
    if keys:
        details = "; ".join(dict.fromkeys(reasons[key] for key in keys if key in reasons))
        suffix = f": {details}" if details else ""
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{why}: [{', '.join(keys)}]{suffix}")
