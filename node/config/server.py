"""A node's configuration, parsed and checked as a whole.

`ServerConfig` maps keys to typed values and remembers their origins; its properties are values that several packages
compute from them. Source: Kafka's `KafkaConfig`. Unknown keys only cause warnings; an invalid value is a `ConfigError`
with its origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from trimaran.node.config.altered_together import check_per_ip
from trimaran.node.config.config_def import ConfigError, ConfigKey
from trimaran.node.config.consumer_group_keys import check_groups
from trimaran.node.config.group_keys import KINDS
from trimaran.node.config.key_warnings import base_key, warning_of
from trimaran.node.config.server_keys import (
    DEV_MODE,
    LISTENER_CONFIGS,
    SERVER_CONFIGS,
    listener_config,
    names_for_listener,
)
from trimaran.node.config.share_delivery_keys import check_share_deliveries
from trimaran.node.config.streams_group_keys import check_streams_groups
from trimaran.wire.identity import Address, BrokerId, NodeId
from trimaran.wire.text.endpoint import PROTOCOL_NUMBERS, Endpoint

LISTENER_PREFIX = "listener.name."
ALTERED = "altered while the node runs"


class Setting(Protocol):
    """A text and its origin."""

    @property
    def value(self) -> str: ...

    @property
    def origin(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ConfiguredVoter:
    """One voter of `controller.quorum.voters`."""

    id: NodeId
    host: str
    port: int


class ServerConfig(Mapping[str, Any]):
    """Typed values of all known keys; `config["node.id"]` is an int. Immutable."""

    def __init__(
        self,
        values: Mapping[str, Any],
        origins: Mapping[str, str],
        warnings: Mapping[str, str],
        of_listeners: Mapping[str, Any] | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """Stores parsed values. `warnings`: by key, the reason why it has no effect here. `of_listeners`: values of
        `listener.name.…` keys. `texts`: all settings in their original form, including unknown keys.
        """
        self._values = dict(values)
        self.texts = dict(texts or {})
        self._of_listeners = dict(of_listeners or {})
        self.origins = dict(origins)
        self.warnings = dict(warnings)
        self._protocols = self._protocol_map()
        self._check_as_a_whole()

    def __getitem__(self, key: str) -> Any:
        value = self._values.get(key)
        return SERVER_CONFIGS[key].default if value is None else value

    def __iter__(self) -> Iterator[str]:
        return iter(SERVER_CONFIGS)

    def __len__(self) -> int:
        return len(SERVER_CONFIGS)

    @property
    def explicit(self) -> Mapping[str, Any]:
        """Returns the values that were set explicitly."""
        return self._values

    # --- derived values

    @property
    def node_id(self) -> NodeId:
        return NodeId(self["node.id"])

    @property
    def broker_id(self) -> BrokerId:
        """Returns the `node.id` of a broker."""
        return BrokerId(self["node.id"])

    @property
    def is_broker(self) -> bool:
        return "broker" in self["process.roles"]

    @property
    def is_controller(self) -> bool:
        return "controller" in self["process.roles"]

    @property
    def log_directories(self) -> list[Path]:
        return [Path(d) for d in self["log.dirs"] or self["log.dir"]]

    def cordoned_directories(self, names: Sequence[str]) -> list[Path]:
        """Returns the directories of `log_directories` that `names`, a value of `cordoned.log.dirs`, contains
        (KIP-1066).
        """
        wanted = set(map(Path, names))
        return [
            log_directory
            for log_directory in self.log_directories
            if "*" in names or log_directory in wanted
        ]

    def check_cordoned(self, names: Sequence[str], *, origin: str = "") -> None:
        """Raises ConfigError if a name is not a log directory, or * is listed together with others."""
        key = "cordoned.log.dirs"
        if "*" in names:
            why = "When cordoned.log.dirs is set to *, it must not contain other values"
            is_wrong = len(names) > 1
        else:
            missing = [name for name in names if Path(name) not in self.log_directories]
            why = (
                "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
                f"Missing entries : {', '.join(missing)}"
            )
            is_wrong = bool(missing)
        if is_wrong:
            fix = "name directories of log.dirs, or * alone"
            answer = f"requirement failed: {why}"
            raise ConfigError(key, ",".join(names), why, origin=origin, fix=fix, answer=answer)

    @property
    def metadata_directory(self) -> Path:
        given = self["metadata.log.dir"]
        return Path(given) if given else self.log_directories[0]

    @property
    def voters(self) -> list[ConfiguredVoter]:
        return [
            _voter(text, self.origins.get("controller.quorum.voters", ""))
            for text in self["controller.quorum.voters"]
        ]

    @property
    def quorum_bootstrap(self) -> list[Address]:
        """Returns the addresses of the quorum: those of the voters, or of the bootstrap servers if there are none."""
        if voters := self.voters:
            return [Address(voter.host, voter.port) for voter in voters]
        key = "controller.quorum.bootstrap.servers"
        return [_host_port(text, key, self.origins.get(key, "")) for text in self[key]]

    @property
    def controller_listeners(self) -> list[Endpoint]:
        return [
            e for e in self._endpoints("listeners") if e.name in self["controller.listener.names"]
        ]

    @property
    def broker_listeners(self) -> list[Endpoint]:
        return [
            e
            for e in self._endpoints("listeners")
            if e.name not in self["controller.listener.names"]
        ]

    @property
    def advertised_broker_listeners(self) -> list[Endpoint]:
        key = "advertised.listeners" if self["advertised.listeners"] else "listeners"
        return [e for e in self._endpoints(key) if e.name not in self["controller.listener.names"]]

    @property
    def advertised_controller_listeners(self) -> list[Endpoint]:
        advertised = self._endpoints("advertised.listeners") if self["advertised.listeners"] else []
        known = {e.name: e for e in advertised}
        return [known.get(e.name, e) for e in self.controller_listeners]

    @property
    def inter_broker_listener_name(self) -> str:
        return str(self["inter.broker.listener.name"] or self["security.inter.broker.protocol"])

    def protocol_of(self, listener: str) -> str:
        """Returns the security protocol of a listener; raises ConfigError if none is configured."""
        key = "listener.security.protocol.map"
        if listener not in self._protocols:
            raise _no_protocol(listener, key, self.origins.get(key, ""))
        return self._protocols[listener]

    def of_listener(self, listener: str, key: str) -> Any:
        """Returns the value of `key` for that listener: its own value, for OAUTHBEARER perhaps with the mechanism in
        front of the key, or that of the node.
        """
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        for own in names_for_listener(key):
            if (value := self._of_listeners.get(prefix + own)) is not None:
                return value
        return self[key] if key in SERVER_CONFIGS else LISTENER_CONFIGS[key].default

    def is_set_for_listener(self, listener: str, key: str) -> bool:
        return f"{LISTENER_PREFIX}{listener.lower()}.{key}" in self._of_listeners

    def with_listener_configs(self, texts: Mapping[str, str]) -> ServerConfig:
        """Returns this configuration with other values of `listener.name.…` keys, ignoring unknown keys; raises
        ConfigError.
        """
        keys = {name: key for name in texts if (key := _listener_key(name)) is not None}
        values = {name: key.parse_stored(texts[name], origin=ALTERED) for name, key in keys.items()}
        origins = self.origins | dict.fromkeys(values, ALTERED)
        of_listeners = self._of_listeners | values
        return ServerConfig(self._values, origins, self.warnings, of_listeners, self.texts)

    def _endpoints(self, key: str) -> list[Endpoint]:
        return [
            _endpoint(text, self._protocols, key, self.origins.get(key, "")) for text in self[key]
        ]

    def _protocol_map(self) -> dict[str, str]:
        """Returns the protocols by listener. As in Kafka, controller listeners default to plaintext unless another
        protocol is in use.
        """
        key = "listener.security.protocol.map"
        protocols = {}
        for pair in self[key]:
            name, colon, protocol = pair.partition(":")
            if not colon or protocol not in PROTOCOL_NUMBERS:
                raise ConfigError(
                    key,
                    pair,
                    "a mapping is written NAME:PROTOCOL",
                    origin=self.origins.get(key, ""),
                    fix="protocols are " + ", ".join(PROTOCOL_NUMBERS),
                )
            protocols[name] = protocol
        names = self["controller.listener.names"]
        used = {text.partition("://")[0] for text in self["listeners"]} | set(names)
        if key not in self._values and not used & (PROTOCOL_NUMBERS.keys() - {"PLAINTEXT"}):
            protocols |= dict.fromkeys(names, "PLAINTEXT")
        return protocols

    def _check_as_a_whole(self) -> None:
        if not self["process.roles"]:
            raise self._missing("process.roles", "broker, controller or broker,controller")
        if self["node.id"] < 0:
            raise self._missing("node.id", "a number that no other node of the cluster has")
        if not self["controller.listener.names"]:
            raise self._missing("controller.listener.names", "for example CONTROLLER")
        if not self.quorum_bootstrap:
            raise self._missing("controller.quorum.voters", "id@host:port of every controller")
        if self.is_controller and not self.controller_listeners:
            name = self["controller.listener.names"][0]
            raise ConfigError(
                "listeners",
                ",".join(self["listeners"]),
                f"a controller must listen on one of controller.listener.names, and {name} is not in listeners",
                origin=self.origins.get("listeners", ""),
                fix=f"add {name}://HOST:PORT",
            )
        self._check_voters()
        self._check_listeners()
        self._check_roles()
        self._check_early_start()
        if self.is_broker:
            origin = self.origins.get("cordoned.log.dirs", "")
            self.check_cordoned(self["cordoned.log.dirs"], origin=origin)
            for kind in KINDS:
                check_groups(kind, self, self.origins)
            check_streams_groups(self, self.origins, self.texts)
            check_share_deliveries(self, self.origins)
        check_per_ip(self.__getitem__, self.origins)

    def _check_voters(self) -> None:
        ids = [voter.id for voter in self.voters]
        if ids and self.is_controller and self.node_id not in ids:
            raise ConfigError(
                "controller.quorum.voters",
                ",".join(self["controller.quorum.voters"]),
                f"this controller, {self.node_id}, is not among the voters",
                origin=self.origins.get("controller.quorum.voters", ""),
                fix="add it, or correct node.id",
            )
        if self.is_broker and not self.is_controller and self.node_id in ids:
            raise ConfigError(
                "node.id",
                self.node_id,
                "a broker may not have the id of a voter",
                origin=self.origins.get("node.id", ""),
                fix="give every node an id of its own",
            )

    def _check_roles(self) -> None:
        """Checks that each listener belongs to a role of this process."""
        why = None
        if self.is_controller and not self.is_broker and self.broker_listeners:
            why = f"{self.broker_listeners[0].name} is no listener of a controller"
        elif self.is_broker and not self.is_controller and self.controller_listeners:
            why = f"{self.controller_listeners[0].name} is a listener of controllers, and this is none"
        elif self.is_broker and not self.broker_listeners:
            why = "a broker needs a listener that is not one of controller.listener.names"
        if why is not None:
            raise ConfigError(
                "listeners",
                ",".join(self["listeners"]),
                why,
                origin=self.origins.get("listeners", ""),
                fix="correct listeners, controller.listener.names or process.roles",
            )
        names = [endpoint.name for endpoint in self.advertised_broker_listeners]
        if self.is_broker and self.inter_broker_listener_name not in names:
            raise ConfigError(
                "inter.broker.listener.name",
                self.inter_broker_listener_name,
                "is not among the advertised listeners",
                origin=self.origins.get("inter.broker.listener.name", ""),
                fix="set it to one of " + ", ".join(names),
            )

    def _check_early_start(self) -> None:
        """Checks early.start.listeners: as in Kafka, the listeners must exist. A Kafka controller with an authorizer
        and a listener that is not in the list would wait for ACLs that no leader can send.
        """
        key = "early.start.listeners"
        if (early := self[key]) is None:
            return
        own = [endpoint.name for endpoint in self.controller_listeners]
        known = {*own, *self["controller.listener.names"], *(e.name for e in self.broker_listeners)}
        if unknown := [name for name in early if name not in known]:
            why = f"{unknown[0]} is in neither listeners nor controller.listener.names"
            fix = "name listeners, or leave it out"
        elif self["authorizer.class.name"] and (
            late := [each_key for each_key in own if each_key not in early]
        ):
            why = f"{late[0]} brings the ACLs to this controller, and cannot wait for them"
            fix = f"add {late[0]}, or leave the key out"
        else:
            return
        raise ConfigError(key, ",".join(early), why, origin=self.origins.get(key, ""), fix=fix)

    def _check_listeners(self) -> None:
        for endpoint in self.advertised_broker_listeners if self.is_broker else ():
            if endpoint.host in {"0.0.0.0", "::"}:
                raise ConfigError(
                    "advertised.listeners",
                    f"{endpoint.name}://{Address(endpoint.host, endpoint.port)}",
                    "clients cannot connect to this address",
                    origin=self.origins.get(
                        "advertised.listeners", self.origins.get("listeners", "")
                    ),
                    fix="advertise a name or address that clients can reach",
                )

    @staticmethod
    def _missing(key: str, example: str) -> ConfigError:
        return ConfigError(key, "", "is not set and has no default", fix=f"set it: {example}")


def parse(settings: Mapping[str, Setting]) -> ServerConfig:
    """Parses all settings; `.warnings` has unknown keys and keys without effect, for the caller to show.

    Raises:
        ConfigError: a value is invalid or missing, or values contradict each other.
    """
    settings = _with_both_ids(settings)
    values, origins, warnings = {}, {}, {}
    texts = {key: setting.value for key, setting in settings.items()}
    of_listeners = {}
    for key, setting in settings.items():
        value = value_of(key, setting)
        if _listener_key(key) is not None:
            of_listeners[key], origins[key] = value, setting.origin
            continue
        if (warning := warning_of(key)) is not None:
            warnings[key] = f"{setting.origin}: {warning}"
        if key in SERVER_CONFIGS:
            values[key], origins[key] = value, setting.origin
    _check_broker_id(values, origins)
    if values.get("trimaran.dev.mode"):
        for key, text in DEV_MODE.items():
            if key not in values:
                values[key] = SERVER_CONFIGS[key].parse(text)
                origins[key] = "trimaran.dev.mode"
                texts[key] = text
    return ServerConfig(values, origins, warnings, of_listeners, texts)


def value_of(key: str, setting: Setting) -> Any:
    """Returns the value of a single setting; None for an unknown key. Raises ConfigError."""
    known = _listener_key(key) or SERVER_CONFIGS.get(key)
    if known is not None:
        return known.parse(setting.value, origin=setting.origin)
    _check_refused(key, setting)
    return None


def _listener_key(key: str) -> ConfigKey | None:
    """Returns the key after `listener.name.LISTENER.`, if it can be set for a listener."""
    listener, _, name = key.removeprefix(LISTENER_PREFIX).partition(".")
    return listener_config(name) if listener and key.startswith(LISTENER_PREFIX) else None


def _check_refused(key: str, setting: Setting) -> None:
    """Raises ConfigError if `listener.name.LISTENER.[MECHANISM.]KEY` sets a key that accepts only its default."""
    base = base_key(key)
    if base is not None and base.only_default:
        replace(base, name=key).parse(setting.value, origin=setting.origin)


def _no_protocol(listener: str, key: str, origin: str) -> ConfigError:
    return ConfigError(
        key,
        listener,
        f"no security protocol is given for {listener}",
        origin=origin,
        fix=f"add {listener}:PLAINTEXT to listener.security.protocol.map",
    )


def _with_both_ids(settings: Mapping[str, Setting]) -> Mapping[str, Setting]:
    """Returns the settings with both `broker.id` and `node.id`, which are equivalent, if one of them is set. Source:
    Kafka's `AbstractKafkaConfig.populateSynonyms`.
    """
    old, new = settings.get("broker.id"), settings.get("node.id")
    if old is None and new is not None:
        return {**settings, "broker.id": new}
    return {**settings, "node.id": old} if new is None and old is not None else settings


def _check_broker_id(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    if values.get("broker.id") != values.get("node.id"):
        raise ConfigError(
            "broker.id",
            values["broker.id"],
            "is not the same as node.id",
            origin=origins["broker.id"],
            fix="leave broker.id out",
        )


def _voter(text: str, origin: str) -> ConfiguredVoter:
    number, at, address = text.partition("@")
    if not at or not _is_below(number, 1 << 31):
        raise ConfigError(
            "controller.quorum.voters", text, "a voter is written id@host:port", origin=origin
        )
    host, port = _host_port(address, "controller.quorum.voters", origin)
    return ConfiguredVoter(NodeId(number), host, port)


def _host_port(text: str, key: str, origin: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not _is_below(port, 1 << 16):
        raise ConfigError(
            key,
            text,
            "an address is written host:port, with a port below 65536",
            origin=origin,
        )
    return Address(host.strip("[]"), int(port))


def _is_below(text: str, bound: int) -> bool:
    """Returns whether the text is a number from 0 to below the bound; Python does not parse numbers of thousands of
    digits.
    """
    try:
        return text.isdecimal() and int(text) < bound
    except ValueError:
        return False


def _endpoint(text: str, protocols: Mapping[str, str], key: str, origin: str) -> Endpoint:
    name, separator, address = text.partition("://")
    if not separator:
        raise ConfigError(key, text, "a listener is written NAME://host:port", origin=origin)
    protocol = protocols.get(name)
    if protocol not in PROTOCOL_NUMBERS:
        raise _no_protocol(name, key, origin)
    host, port = _host_port(address, key, origin)
    return Endpoint(name, host, port, PROTOCOL_NUMBERS[protocol])
