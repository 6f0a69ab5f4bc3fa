"""One class per znode: its path, its bytes, and back. Pure.

Source: Kafka 3.9's `ZkData.scala`, checked against trees written by real clusters. The member order of each object is
the order that Kafka's hash maps gave (`json_form`). `decode` raises RemoteProtocolError for anything malformed; what it
returns is for comparing and for tools, nothing of it flows back into the cluster.
Left out: ACLs, quotas, SCRAM, delegation tokens and the old consumers' znodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from wire.endpoint import PROTOCOL_NUMBERS, SECURITY_PROTOCOLS
from wire.errors import RemoteProtocolError
from wire.primitives import uuid_from_text, uuid_to_text
from zkcompat.json_form import decode_json, encode_json, properties_order, scala_map_order

BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
CONFIG_TOPICS = "/config/topics"
CONFIG_BROKERS = "/config/brokers"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"

_ACL_TYPES = ("DelegationToken", "Topic", "Group", "Cluster", "User", "TransactionalId")

# Parents before children. They stand in every ZooKeeper-mode cluster, with no data.
STANDING_PARENTS = (
    "/cluster",
    "/consumers",
    "/brokers",
    BROKER_IDS,
    BROKER_TOPICS,
    "/brokers/seqid",
    "/config",
    CONFIG_CHANGES,
    CONFIG_TOPICS,
    "/config/clients",
    "/config/users",
    CONFIG_BROKERS,
    "/config/ips",
    "/admin",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/log_dir_event_notification",
    "/delegation_token",
    "/delegation_token/token_changes",
    "/delegation_token/tokens",
    "/kafka-acl",
    *(f"/kafka-acl/{kind}" for kind in _ACL_TYPES),
    "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed",
    *(f"/kafka-acl-extended/prefixed/{kind}" for kind in _ACL_TYPES),
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
)

PRODUCER_ID_BLOCK_SIZE = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterId:
    PATH: ClassVar = "/cluster/id"
    id: str

    def encode(self) -> bytes:
        return encode_json({"version": "1", "id": self.id})

    @classmethod
    def decode(cls, data: bytes | None) -> ClusterId:
        return cls(_member(decode_json(data), "id", str))


@dataclass(frozen=True, slots=True)
class Controller:
    """Who leads. Ephemeral: it is also the mirror's claim, gone with its session."""

    PATH: ClassVar = "/controller"
    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> Controller:
        members = decode_json(data)
        epoch = (
            _member(members, "kraftControllerEpoch", int)
            if "kraftControllerEpoch" in members
            else -1
        )
        return cls(_member(members, "brokerid", int), _number(members, "timestamp"), epoch)


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """ZooKeeper's own controller epoch: one more at each claim, apart from the raft epoch."""

    PATH: ClassVar = "/controller_epoch"
    epoch: int

    def encode(self) -> bytes:
        return str(self.epoch).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> ControllerEpoch:
        text = (data or b"").decode("ascii", "replace")
        if not text.isdecimal() or len(text) > 10:
            raise RemoteProtocolError("a controller epoch that is not a number")
        return cls(int(text))


@dataclass(frozen=True, slots=True)
class Migration:
    """Up to where the tree is in step with the metadata log.

    `dirty` is our addition: true between two transactions of one step, when the tree is neither at `offset` nor at the
    next one. At rest the bytes are Kafka's; its reader ignores members that it does not know.
    """

    PATH: ClassVar = "/migration"
    offset: int = -1
    controller_id: int = -1
    epoch: int = -1
    controller_epoch: int = -1
    dirty: bool = False

    def encode(self) -> bytes:
        members: dict[str, Any] = {
            "version": 0,
            "kraft_metadata_offset": self.offset,
            "kraft_controller_id": self.controller_id,
            "kraft_metadata_epoch": self.epoch,
            "kraft_controller_epoch": self.controller_epoch,
        }
        if self.dirty:
            members["dirty"] = True
        return encode_json(members)

    @classmethod
    def decode(cls, data: bytes | None) -> Migration:
        members = decode_json(data)
        if _member(members, "version", int) != 0:
            raise RemoteProtocolError(f"a migration state of version {members['version']}")
        return cls(
            offset=_member(members, "kraft_metadata_offset", int),
            controller_id=_member(members, "kraft_controller_id", int),
            epoch=_member(members, "kraft_metadata_epoch", int),
            controller_epoch=_member(members, "kraft_controller_epoch", int),
            dirty=members.get("dirty") is True,
        )


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    name: str
    host: str
    port: int
    security_protocol: int

    def connection_string(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered, unfenced broker. `timestamp_ms` says when it was written and is not compared."""

    broker_id: int
    endpoints: Sequence[ListenerAddress]
    rack: str | None
    timestamp_ms: int
    jmx_port: int = -1

    @staticmethod
    def path(broker_id: int) -> str:
        return f"{BROKER_IDS}/{broker_id}"

    def encode(self) -> bytes:
        # Clients before 0.9 read host and port; they speak plaintext only.
        plain = next((e for e in self.endpoints if e.security_protocol == 0), None)
        protocols = {e.name: SECURITY_PROTOCOLS[e.security_protocol] for e in self.endpoints}
        members: dict[str, Any] = {
            "features": {},
            "listener_security_protocol_map": protocols,
            "endpoints": [endpoint.connection_string() for endpoint in self.endpoints],
        }
        if self.rack is not None:
            members["rack"] = self.rack
        members["jmx_port"] = self.jmx_port
        members["port"] = plain.port if plain else -1
        members["host"] = plain.host if plain else None
        members["version"] = 5
        members["timestamp"] = str(self.timestamp_ms)
        return encode_json(members)

    @classmethod
    def decode(cls, broker_id: int, data: bytes | None) -> BrokerInfo:
        members = decode_json(data)
        protocols = _member(members, "listener_security_protocol_map", dict)
        endpoints = []
        for text in _member(members, "endpoints", list):
            name, _, address = str(text).partition("://")
            host, _, port = address.rpartition(":")
            if protocols.get(name) not in PROTOCOL_NUMBERS or not port.isdecimal():
                raise RemoteProtocolError(f"an endpoint {text!r} of broker {broker_id}")
            endpoints.append(
                ListenerAddress(
                    name, host.strip("[]"), int(port), PROTOCOL_NUMBERS[protocols[name]]
                )
            )
        rack = _member(members, "rack", str) if members.get("rack") is not None else None
        jmx_port = _member(members, "jmx_port", int)
        return cls(broker_id, tuple(endpoints), rack, _number(members, "timestamp"), jmx_port)


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """Which replicas each partition has. Empty lists of adding and removing replicas are left away."""

    topic_id: bytes
    partitions: Mapping[int, Sequence[int]]
    adding: Mapping[int, Sequence[int]] = field(default_factory=dict)
    removing: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @staticmethod
    def path(topic: str) -> str:
        return f"{BROKER_TOPICS}/{topic}"

    def encode(self) -> bytes:
        return encode_json(
            {
                "partitions": _by_partition(self.partitions),
                "topic_id": uuid_to_text(self.topic_id),
                "adding_replicas": _by_partition(self.adding),
                "removing_replicas": _by_partition(self.removing),
                "version": 3,
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> TopicAssignment:
        members = decode_json(data)
        try:
            topic_id = uuid_from_text(_member(members, "topic_id", str))
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from error
        return cls(
            topic_id,
            _replicas(members, "partitions"),
            _replicas(members, "adding_replicas"),
            _replicas(members, "removing_replicas"),
        )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leader and in-sync replicas; `controller_epoch` is the raft epoch in which this was written."""

    leader: int
    leader_epoch: int
    isr: Sequence[int]
    controller_epoch: int
    leader_recovery_state: int = 0

    @staticmethod
    def parent(topic: str) -> str:
        return f"{BROKER_TOPICS}/{topic}/partitions"

    @staticmethod
    def partition_path(topic: str, partition: int) -> str:
        return f"{BROKER_TOPICS}/{topic}/partitions/{partition}"

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"{BROKER_TOPICS}/{topic}/partitions/{partition}/state"

    def encode(self) -> bytes:
        members: dict[str, Any] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
        }
        if self.leader_recovery_state:
            members["leader_recovery_state"] = self.leader_recovery_state
        members["leader_epoch"] = self.leader_epoch
        members["isr"] = list(self.isr)
        return encode_json(members)

    @classmethod
    def decode(cls, data: bytes | None) -> PartitionState:
        members = decode_json(data)
        return cls(
            leader=_member(members, "leader", int),
            leader_epoch=_member(members, "leader_epoch", int),
            isr=_ids(_member(members, "isr", list)),
            controller_epoch=_member(members, "controller_epoch", int),
            leader_recovery_state=members.get("leader_recovery_state", 0),
        )


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """The dynamic configs of a topic or broker; `entity` is `<default>` for all brokers."""

    config: Mapping[str, str]

    @staticmethod
    def topic_path(topic: str) -> str:
        return f"{CONFIG_TOPICS}/{topic}"

    @staticmethod
    def broker_path(entity: str) -> str:
        return f"{CONFIG_BROKERS}/{entity}"

    def encode(self) -> bytes:
        ordered = {key: self.config[key] for key in properties_order(self.config)}
        return encode_json({"version": 1, "config": ordered})

    @classmethod
    def decode(cls, data: bytes | None) -> EntityConfig:
        config = _member(decode_json(data), "config", dict)
        return cls({key: str(value) for key, value in config.items()})


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A sequential note that the configs of `entity_path` (`topics/T`, `brokers/N`) changed."""

    entity_path: str

    def encode(self) -> bytes:
        return encode_json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, data: bytes | None) -> ConfigChange:
        return cls(_member(decode_json(data), "entity_path", str))


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The block of producer ids that comes next; -1 is the broker of a KRaft controller's block."""

    PATH: ClassVar = "/latest_producer_id_block"
    block_start: int
    broker: int = -1

    def encode(self) -> bytes:
        end = self.block_start + PRODUCER_ID_BLOCK_SIZE - 1
        return encode_json(
            {
                "version": 1,
                "broker": self.broker,
                "block_start": str(self.block_start),
                "block_end": str(end),
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> ProducerIdBlock:
        members = decode_json(data)
        return cls(_number(members, "block_start"), _member(members, "broker", int))


@dataclass(frozen=True, slots=True)
class Feature:
    """Finalised features; a KRaft cluster keeps its own in the metadata log, so none stand here."""

    PATH: ClassVar = "/feature"

    def encode(self) -> bytes:
        return encode_json({"features": {}, "version": 2, "status": 1})

    @classmethod
    def decode(cls, data: bytes | None) -> Feature:
        _member(decode_json(data), "features", dict)
        return cls()


def decode_or_none(decode: Callable[[bytes | None], T], data: bytes | None) -> T | None:
    """What `decode` makes of the bytes, None when they are malformed: a znode that people damaged counts as absent."""
    try:
        return decode(data)
    except RemoteProtocolError:
        return None


def _by_partition(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    texts = {str(partition): list(ids) for partition, ids in replicas.items() if ids}
    return {text: texts[text] for text in scala_map_order(texts)}


def _replicas(members: dict[str, Any], name: str) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for text, ids in _member(members, name, dict).items():
        if not text.isdecimal() or not isinstance(ids, list):
            raise RemoteProtocolError(f"{name} of a topic znode has {text!r}")
        found[int(text)] = _ids(ids)
    return found


def _ids(values: list[object]) -> tuple[int, ...]:
    ids = tuple(value for value in values if isinstance(value, int))
    if len(ids) != len(values):
        raise RemoteProtocolError("a list of broker ids with something else in it")
    return ids


def _member(members: dict[str, Any], name: str, kind: type[T]) -> T:
    value = members.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RemoteProtocolError(f"a znode whose {name!r} is {value!r}")
    return value


def _number(members: dict[str, Any], name: str) -> int:
    """A number that Kafka wrote as a text."""
    text = _member(members, name, str)
    if not text.lstrip("-").isdecimal() or len(text) > 20:
        raise RemoteProtocolError(f"a znode whose {name!r} is {text!r}")
    return int(text)
