"""Which configs of brokers may change while they run, and what each does here.

- keys of `SERVER_CONFIGS` with a scope. Those of logs and topics hold for every topic that says nothing itself, at once. Taken and told,
  and not acted on before the broker's file says the same: `max.connections`, `max.connections.per.ip`, `producer.id.expiration.ms`,
  `num.replica.fetchers`.
- `KEPT`: Apache Kafka's other dynamic keys. They are taken, written and told, and change nothing: we have no pools of threads, and quotas
  are not enforced yet.
- keys of one listener (`listener.name.…`): kept as well; certificates are read when a node starts.

Everything else is refused. Source: Kafka's `DynamicBrokerConfig`, `DynamicConfig`, KIP-226.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from node.config.config_def import ConfigDef, ConfigError, ConfigKey, Kind, at_least
from node.config.ignored_keys import is_ignored
from node.config.security_keys import TLS
from node.config.server_keys import SERVER_CONFIGS
from wire.errors import ErrorCode, KafkaError

_POOL = "Kafka's threads; has no effect here."
_CLEANER = "Kafka's log cleaner; has no effect here."
_RATE = "Bytes a second; not enforced yet."


def _kept(name: str, kind: Kind, doc: str, low: float | None = None) -> ConfigKey:
    check = None if low is None else at_least(low)
    return ConfigKey(name, kind, None, doc, check, scope="cluster-wide")


KEPT = ConfigDef(
    (
        _kept("leader.replication.throttled.rate", "long", _RATE, 0),
        _kept("follower.replication.throttled.rate", "long", _RATE, 0),
        _kept("replica.alter.log.dirs.io.max.bytes.per.second", "long", _RATE, 0),
        _kept("num.io.threads", "int", _POOL, 1),
        _kept("num.network.threads", "int", _POOL, 1),
        _kept("num.recovery.threads.per.data.dir", "int", _POOL, 1),
        _kept("background.threads", "int", _POOL, 1),
        _kept("log.cleaner.threads", "int", _CLEANER, 0),
        _kept("log.cleaner.dedupe.buffer.size", "long", _CLEANER),
        _kept("log.cleaner.io.buffer.load.factor", "double", _CLEANER),
        _kept("log.cleaner.io.buffer.size", "int", _CLEANER, 0),
        _kept("log.cleaner.io.max.bytes.per.second", "double", _CLEANER),
        _kept("log.cleaner.backoff.ms", "long", _CLEANER, 0),
        _kept("max.connection.creation.rate", "int", "Not enforced yet.", 0),
        _kept("max.connections.per.ip.overrides", "string", "Not enforced yet."),
        _kept("metric.reporters", "list", "Kafka's plugins; has no effect here."),
        _kept("transaction.partition.verification.enable", "boolean", "Kafka's; always on here."),
        _kept("log.local.retention.ms", "long", "Tiered storage; has no effect here.", -2),
        _kept("log.local.retention.bytes", "long", "Tiered storage; has no effect here.", -2),
        _kept("remote.log.index.file.cache.total.size.bytes", "long", "Tiered storage.", 1),
        _kept("remote.fetch.max.wait.ms", "int", "Tiered storage.", 1),
        _kept("remote.log.manager.copy.max.bytes.per.second", "long", "Tiered storage.", 1),
        _kept("remote.log.manager.fetch.max.bytes.per.second", "long", "Tiered storage.", 1),
    )
)
_LISTENER = re.compile(r"listener\.name\.[^.]+\.(.+)")
_OF_LISTENERS = {key.name: key for key in TLS}
_SECURITY = frozenset(name for name in _OF_LISTENERS if name.startswith(("ssl.key", "ssl.trust")))
# Of a listener, and still the same for all brokers.
_OF_ALL_BROKERS = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)


def dynamic_key(name: str) -> ConfigKey | None:
    """What is known of a key that a broker may be given while it runs; None for all others."""
    if (listener := _LISTENER.fullmatch(name)) is not None:
        base = listener.group(1)
        key = _OF_LISTENERS.get(base) or SERVER_CONFIGS.get(base) or KEPT.get(base)
        if key is None and base.endswith("sasl.jaas.config"):
            return ConfigKey(name, "password", None, "Users of a listener.", scope="per-broker")
        return key
    key = SERVER_CONFIGS.get(name)
    if key is None:
        return KEPT.get(name)
    return key if key.scope != "read-only" else None


def check_broker_configs(changes: Mapping[str, str], *, of_one_broker: bool) -> None:
    """Looks at what is to be set; what is taken away is never wrong.

    Raises:
        KafkaError: INVALID_REQUEST: not while a broker runs, or not for all at once, or a wrong value, with Kafka's words;
            INVALID_CONFIG: a key that nobody knows.
    """
    unknown = [key for key in changes if not _is_known(key)]
    if unknown:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {', '.join(unknown)}")
    _refuse(
        [key for key in changes if dynamic_key(key) is None and key not in _SECURITY],
        "Cannot update these configs dynamically",
    )
    _refuse(
        [key for key in changes if key in _SECURITY],
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    for name, text in changes.items():
        key = dynamic_key(name)
        assert key is not None
        try:
            key.parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.answer) from error
    if not of_one_broker:
        _refuse(
            [key for key in changes if _is_of_one_broker(key)],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _is_known(name: str) -> bool:
    return name in SERVER_CONFIGS or is_ignored(name) or dynamic_key(name) is not None


def _is_of_one_broker(name: str) -> bool:
    listener = _LISTENER.fullmatch(name)
    if listener is not None:
        return listener.group(1) not in _OF_ALL_BROKERS
    key = dynamic_key(name)
    return key is not None and key.scope == "per-broker"


def _refuse(keys: list[str], why: str) -> None:
    if keys:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{why}: [{', '.join(keys)}]")
