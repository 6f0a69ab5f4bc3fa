"""Every key that Apache Kafka 4.3 can alter, on a real broker: it is altered, its effect asserted, and the change
reverted;

or it is refused with a reason, or accepted without effect, which DescribeConfigs reports. docs/configuration.md has the
table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.broker.handlers.broker_client import BrokerClient
from tests.broker.handlers.configs import BROKER, described, description, incremental
from tests.broker.tls_broker import open_tls_broker
from tests.certificates import Certificates
from tests.node.config import kafka_dynamic
from trimaran.broker.groups.consumer.describe import CONSUMER
from trimaran.broker.groups.share.describe import SHARE
from trimaran.broker.groups.streams.describe import STREAMS
from trimaran.log.batches.batch import TimestampType
from trimaran.log.codecs.compression import Compression
from trimaran.node.config.config_def import INT_MAX
from trimaran.node.config.dynamic_keys import NOT_WHILE_RUNNING, dynamic_key
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition

SECONDS = 60.0
DYNAMIC_BROKER, DYNAMIC_DEFAULT = 2, 3
TOPIC, LISTENER = "t", "CLIENTS"


class Node(BrokerClient):
    """One broker, with a topic and its open log, and its observable behaviour."""

    certificates: Certificates
    path: Path

    @property
    def log(self) -> Any:
        return self.broker.parts.families.data.partitions.find(TopicPartition(TOPIC, 0)).log.config

    @property
    def settings(self) -> Any:
        return self.broker.parts.families.data.partitions.settings_of(TOPIC)

    @property
    def bounds(self) -> Any:
        return self.broker.parts.connections.quotas.bounds

    @property
    def cleaner(self) -> Any:
        return self.broker.parts.maintenance._cleaner._settings()

    @property
    def throttles(self) -> Any:
        return self.broker.contexts.data.throttles

    @property
    def controller(self) -> ControllerState:
        running = self.cluster.controllers[1]
        return ControllerState(running.loader.image, None, running.context.config)

    @property
    def security(self) -> Any:
        return next(
            listener for listener in self.broker.parts.listeners if listener.name == LISTENER
        ).security


@dataclass(frozen=True)
class Acts:
    """A setting, and the `expected` behaviour of a node with it; `beside` has the other settings that it requires."""

    value: str
    look: Callable[[Node], object]
    expected: object
    beside: dict[str, str] = field(default_factory=dict)


def of_log(value: str, name: str, expected: object, **beside: str) -> Acts:
    others = {key.replace("_", "."): text for key, text in beside.items()}
    return Acts(value, lambda node: getattr(node.log, name), expected, others)


ACTS = {
    "compression.gzip.level": of_log("1", "compression_level", 1, compression_type="gzip"),
    "compression.lz4.level": of_log("2", "compression_level", 2, compression_type="lz4"),
    "compression.type": of_log("snappy", "compression", Compression.SNAPPY),
    "compression.zstd.level": of_log("5", "compression_level", 5, compression_type="zstd"),
    "follower.replication.throttled.rate": Acts(
        "11", lambda node: node.throttles.follower.bound, 11
    ),
    "errors.deadletterqueue.auto.create.topics.enable": Acts(
        "true",
        lambda node: node.broker.parts.families.shares.sharing._queues.queue_of("g").creates,
        True,
    ),
    "errors.deadletterqueue.topic.name.prefix": Acts(
        "lost.",
        lambda node: node.broker.parts.families.shares.sharing._queues.queue_of("g").prefix,
        "lost.",
    ),
    "group.streams.assignment.interval.ms": Acts(
        "77",
        lambda node: (
            node.broker.parts.families.groups._dependencies.settings[STREAMS](
                "g"
            ).assignment_interval_ms
        ),
        77,
    ),
    "group.share.assignment.interval.ms": Acts(
        "77",
        lambda node: (
            node.broker.parts.families.groups._dependencies.settings[SHARE](
                "g"
            ).assignment_interval_ms
        ),
        77,
    ),
    "group.consumer.assignment.interval.ms": Acts(
        "77",
        lambda node: (
            node.broker.parts.families.groups._dependencies.settings[CONSUMER](
                "g"
            ).assignment_interval_ms
        ),
        77,
    ),
    "leader.replication.throttled.rate": Acts("12", lambda node: node.throttles.leader.bound, 12),
    "log.cleaner.backoff.ms": Acts("7", lambda node: node.cleaner.backoff, 0.007),
    "log.cleaner.dedupe.buffer.size": Acts(
        "4096000", lambda node: node.cleaner.limits.map_bytes, 4096000
    ),
    "log.cleaner.delete.retention.ms": of_log("5", "delete_retention_ms", 5),
    "log.cleaner.io.buffer.load.factor": Acts(
        "0.5", lambda node: node.cleaner.limits.load_factor, 0.5
    ),
    "log.cleaner.io.max.bytes.per.second": Acts(
        "9", lambda node: node.cleaner.bytes_per_second_max, 9.0
    ),
    "log.cleaner.max.compaction.lag.ms": of_log("6", "max_compaction_lag_ms", 6),
    "log.cleaner.min.cleanable.ratio": of_log("0.25", "min_cleanable_dirty_ratio", 0.25),
    "log.cleaner.min.compaction.lag.ms": of_log("6", "min_compaction_lag_ms", 6),
    "log.cleanup.policy": of_log("compact", "compacts", True),
    "log.flush.interval.messages": of_log("9", "flush_messages", 9),
    "log.flush.interval.ms": of_log("9", "flush_ms", 9),
    "log.index.interval.bytes": of_log("9", "index_interval_bytes", 9),
    "log.index.size.max.bytes": of_log("9000", "segment_index_bytes", 9000),
    "log.message.timestamp.after.max.ms": of_log("9", "message_timestamp_after_max_ms", 9),
    "log.message.timestamp.before.max.ms": of_log("9", "message_timestamp_before_max_ms", 9),
    "log.message.timestamp.type": of_log(
        "LogAppendTime", "message_timestamp_type", TimestampType.LOG_APPEND_TIME
    ),
    "log.preallocate": of_log("true", "preallocate", True),
    "log.retention.bytes": of_log("9", "retention_bytes", 9),
    "log.retention.ms": of_log("9", "retention_ms", 9),
    "log.roll.jitter.ms": of_log("9", "segment_jitter_ms", 9),
    "log.roll.ms": of_log("9", "segment_ms", 9),
    "log.segment.bytes": of_log("2000000", "segment_bytes", 2000000),
    "log.segment.delete.delay.ms": of_log("9", "file_delete_delay_ms", 9),
    "max.connection.creation.rate": Acts("900", lambda node: node.bounds.rate, 900),
    "max.connections": Acts("900", lambda node: node.bounds.connections_max, 900),
    "max.connections.per.ip": Acts("900", lambda node: node.bounds.per_ip_max, 900),
    "max.connections.per.ip.overrides": Acts(
        "10.0.0.7:5", lambda node: node.bounds.per_ip, {"10.0.0.7": 5}
    ),
    "max.decompressed.message.bytes": of_log("9000", "max_decompressed_message_bytes", 9000),
    "message.max.bytes": of_log("9000", "max_message_bytes", 9000),
    "producer.id.expiration.ms": of_log("9", "producer_id_expiration_ms", 9),
    "replica.alter.log.dirs.io.max.bytes.per.second": Acts(
        "13", lambda node: node.throttles.moves.bound, 13
    ),
    "transaction.partition.verification.enable": Acts(
        "false", lambda node: node.broker.parts.families.transactions.verifier._is_enabled(), False
    ),
    "unclean.leader.election.enable": Acts(
        "true",
        lambda node: node.controller.allows_unclean(node.image.topics.by_name[TOPIC]),
        True,
    ),
}
# Settings of a listener: they apply to new connections.
OF_LISTENERS = {
    "max.connection.creation.rate": ("500", lambda node: node.bounds.rates_of_listeners[LISTENER]),
    "max.connections": ("500", lambda node: node.bounds.of_listeners[LISTENER]),
}


def acts(name: str) -> bool:
    key = dynamic_key(name)
    return key is not None and not (key.no_effect or key.no_effect_while_running)


NO_EFFECT = [
    name
    for name in kafka_dynamic.ALL
    if (key := dynamic_key(name)) is not None and (key.no_effect or key.no_effect_while_running)
]


def test_each_key_has_a_row():
    acting = {name for name in kafka_dynamic.ALL if acts(name)}
    assert acting == ACTS.keys() | {"cordoned.log.dirs", "min.insync.replicas"}
    refused = {name for name in kafka_dynamic.ALL if dynamic_key(name) is None}
    assert refused == NOT_WHILE_RUNNING.keys()


@asynccontextmanager
async def node(path: Path):
    async with open_tls_broker(path, "SSL") as (running, broker, connection, certificates):
        one = Node(running, broker, connection)
        one.certificates, one.path = certificates, path
        await one.create(TOPIC)
        with trio.fail_after(SECONDS):
            while one.broker.parts.families.data.partitions.find(TopicPartition(TOPIC, 0)) is None:
                await trio.lowlevel.checkpoint()
        one.broker.parts.families.data.partitions.find(TopicPartition(TOPIC, 0)).open_leader()
        yield one


async def alter(one: Node, name: str, changes: dict[str, str | None]) -> Any:
    """Returns the response; both nodes have applied what was accepted."""
    request = incremental((BROKER, name, {key: text or "" for key, text in changes.items()}))
    for resource in request.resources:
        for config in resource.configs:
            if changes[config.name] is None:
                config.config_operation, config.value = 1, None
    (result,) = (await one.call(request)).responses
    if not result.error_code:
        controller = one.cluster.controllers[1]
        with trio.fail_after(SECONDS):
            while any(
                image.configs.of(BROKER, name).get(key) != text
                for image in (one.image, controller.loader.image)
                for key, text in changes.items()
            ):
                await trio.lowlevel.checkpoint()
    return result


async def check_effect(one: Node, resource: str, key: str, row: Acts) -> str | None:
    """Returns the reason if the row does not hold."""
    before = row.look(one)
    changes = {key: row.value, **row.beside}
    result = await alter(one, resource, dict(changes))
    if result.error_code:
        return f"{key}: {result.error_message}"
    shown = (await described(one, BROKER, str(one.broker.node_id), key))[key]
    source = DYNAMIC_BROKER if resource else DYNAMIC_DEFAULT
    seen = row.look(one)
    await alter(one, resource, dict.fromkeys(changes))
    after = row.look(one)
    declared = dynamic_key(key)
    text = declared.text_of(declared.parse(row.value))
    if (shown.value, shown.config_source, shown.read_only) != (text, source, False):
        return f"{key}: described as {shown}"
    if before == row.expected or seen != row.expected or after != before:
        return f"{key}: {before!r}, then {seen!r}, then {after!r}"
    return None


@pytest.mark.parametrize("resource", ["", "11"], ids=["of all", "of one broker"])
async def test_effective_configs_apply_and_revert(tmp_path, resource):
    async with node(tmp_path) as one:
        wrong = [
            await check_effect(one, resource, key, row)
            for key, row in ACTS.items()
            if not (resource and key == "unclean.leader.election.enable")
        ]  # applies to controllers
        assert [text for text in wrong if text] == []


async def test_effective_listener_configs_apply_and_revert(tmp_path):
    async with node(tmp_path) as one:
        before = one.bounds
        for key, (value, look) in OF_LISTENERS.items():
            name = f"listener.name.clients.{key}"
            for resource in ("", "11"):
                assert (await alter(one, resource, {name: value})).error_code == 0
                assert look(one) == int(value)
                await alter(one, resource, {name: None})
                assert look(one) in (math.inf, INT_MAX)
        assert one.bounds == before


async def test_min_insync_replicas_is_that_of_the_cluster(tmp_path):
    """With eligible leader replicas it is never set for a single broker, and cannot be removed (KIP-966)."""
    async with node(tmp_path) as one:
        for number in (2, 1):
            assert (await alter(one, "", {"min.insync.replicas": str(number)})).error_code == 0
            assert one.settings.min_insync_replicas == number
        for resource, text in (("", None), ("11", "2")):
            result = await alter(one, resource, {"min.insync.replicas": text})
            assert "while ELR is enabled" in result.error_message


async def test_directories_are_cordoned_and_taken_back(tmp_path):
    async with node(tmp_path) as one:
        path = str(one.broker.parts.storage.directories.all[0].path)
        assert (await alter(one, "11", {"cordoned.log.dirs": path})).error_code == 0
        assert list(map(str, one.broker.parts.storage.directories.cordoned())) == [path]
        await alter(one, "11", {"cordoned.log.dirs": None})
        assert list(one.broker.parts.storage.directories.cordoned()) == []


async def test_ineffective_configs_are_accepted_and_documented(tmp_path):
    async with node(tmp_path) as one:
        for name in NO_EFFECT:
            key = dynamic_key(name)
            assert key is not None
            text = key.default_text if key.default not in (None, []) else "x"
            result = await alter(one, "11", {name: text})
            assert result.error_code == 0, (name, result.error_message)
            asked = description(BROKER, "11", name).replace(include_documentation=True)
            ((shown,),) = [found.configs for found in (await one.call(asked)).results]
            assert shown.value == text
            why = key.no_effect or key.no_effect_while_running
            assert shown.documentation.endswith(f"{why}.")


@pytest.mark.parametrize("resource", ["", "11"], ids=["of all", "of one broker"])
async def test_refused_configs_are_explained(tmp_path, resource):
    async with node(tmp_path) as one:
        for name, why in NOT_WHILE_RUNNING.items():
            result = await alter(one, resource, {name: "x"})
            assert result.error_code == ErrorCode.INVALID_REQUEST, name
            per_listener = "only per-listener using the listener prefix"
            assert why in result.error_message or per_listener in result.error_message


async def test_each_tls_key_rebuilds_listener_security(tmp_path):
    async with node(tmp_path) as one:
        key, chain = one.certificates.server
        (one.path / "ca.pem").write_text(one.certificates.ca)
        location = {"ssl.keystore.location": str(one.path / "node.pem")}
        of_text = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
        trusted = {
            "ssl.truststore.location": str(one.path / "ca.pem"),
            "ssl.truststore.type": "PEM",
        }
        for changes in (
            location | {"ssl.keystore.type": "PEM"},
            of_text | {"ssl.keystore.location": ""},
            trusted,
            {"ssl.truststore.certificates": one.certificates.ca, "ssl.truststore.type": "PEM"},
            trusted | {"ssl.client.auth": "required"},
            {"ssl.enabled.protocols": "TLSv1.3"},
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
            {"ssl.endpoint.identification.algorithm": ""},
        ):
            prefixed = {f"listener.name.clients.{name}": text for name, text in changes.items()}
            for texts in (prefixed, dict.fromkeys(prefixed)):
                before = one.security.tls
                result = await alter(one, "11", dict(texts))
                assert result.error_code == 0, (changes, result.error_message)
                with trio.fail_after(SECONDS):
                    while one.security.tls is before:
                        await trio.lowlevel.checkpoint()
