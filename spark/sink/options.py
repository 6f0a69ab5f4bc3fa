"""The options of the sink, parsed once into a frozen value. Names and defaults are those of Spark's own Kafka sink and
of Kafka's producer, except where a comment says otherwise.

`trimaran.spark.kafka_options` decides about those that are not read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trimaran.log.codecs.compression import Compression
from trimaran.spark.kafka_options import WRITING
from trimaran.spark.options import INT_MAX, LONG_MAX, OptionError, OptionReader, between
from trimaran.spark.origins.running_cluster.connection import (
    BROKERS,
    PREFIX,
    SECURITY_KEYS,
    ClusterSettings,
    TimeLimit,
)
from trimaran.wire.client.bootstrap import parse_bootstrap

AT_LEAST_ONCE, EXACTLY_ONCE = "at_least_once", "exactly_once"
CODECS = {kind.name.lower(): kind for kind in Compression}
# by codec: the levels that Kafka's producer accepts
LEVELS: Mapping[Compression, Sequence[int]] = {
    Compression.GZIP: (-1, *range(1, 10)),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-131072, 23),
}
# Kafka's default is 16 KiB. One batch of a partition is in flight at a time, so it must be worth its round trip.
BATCH_BYTES = 128 << 10
BUFFER_BYTES = 32 << 20
REQUEST_BYTES = 1 << 20
REQUEST_MS = 30_000
DELIVERY_MS = 120_000
MAX_BLOCK = "kafka.max.block.ms"
FACTOR_MAX = (1 << 15) - 1  # the range of the field in CreateTopics
ABOVE_ZERO = f"a number above 0, up to {INT_MAX}"
BLOCK_MS = 60_000
# Kafka's default is one minute; a micro-batch may take longer. This is the default maximum of brokers
# (`transaction.max.timeout.ms`).
TRANSACTION_MS = 900_000
CLIENT_ID = "spark"
# The prefix of transactional ids and of the name of the decisions' topic: it has only characters of topic names, and
# leaves room for suffixes.
PREFIX_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")

EXACTLY_ONCE_OPTIONS = ("transactionalIdPrefix", "adoptCheckpoint", "acceptLostBatch")


@dataclass(frozen=True, slots=True)
class CreatedTopics:
    """How topics that do not exist are created."""

    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The properties of the producer. Times are in seconds, sizes in bytes."""

    acks: int
    compression: Compression
    compression_level: int | None
    batch_bytes: int
    linger_seconds: float
    buffer_bytes: int
    request_bytes: int
    request_seconds: float
    delivery_seconds: float
    block_seconds: float
    ignores_keys: bool

    @property
    def is_idempotent(self) -> bool:
        return self.acks == -1


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """The options of exactly-once delivery.

    Args:
        adopts: the query has written without exactly-once delivery before.
        lost_batch_accepted: the number of a micro-batch whose partial loss does not stop the query.
    """

    prefix: str
    timeout_ms: int
    adopts: bool
    lost_batch_accepted: int | None


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of the sink."""

    cluster: ClusterSettings
    topic: str | None
    producer: ProducerSettings
    creation: CreatedTopics | None
    exactly_once: ExactlyOnce | None
    notes: tuple[str, ...] = ()  # sentences about options without effect

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
        """Returns the options. Raises OptionError."""
        o = OptionReader("kafka_log", given)
        _refuse_path(o)
        delivery = _exactly_once(o, streaming=streaming)
        topic = o.get("topic")
        if topic is not None and not topic.strip():
            raise o.wrong("topic", "is empty")
        parsed = cls(
            cluster=_cluster(o),
            topic=topic,
            producer=_producer(o, must_be_idempotent=delivery is not None),
            creation=_creation(o),
            exactly_once=delivery,
        )
        # Spark passes its own options for streams to the sink.
        for name in ("checkpointLocation", "queryName"):
            o.get(name)
        return replace(parsed, notes=o.finish(WRITING))


def _refuse_path(o: OptionReader) -> None:
    if o.get("path") is not None or o.get("paths") is not None:
        raise OptionError(
            "kafka_log: a directory of a node cannot be written to; use .save() without a path, and option "
            f"{BROKERS} for the brokers"
        )


def _cluster(o: OptionReader) -> ClusterSettings:
    bootstrap = o.get(BROKERS)
    if bootstrap is None:
        raise o.wrong(
            BROKERS,
            "is required for a write: HOST:PORT,…; tables of a catalog do not pass their options: INSERT INTO t WITH "
            f"(`{BROKERS}` = '…', …) SELECT …",
        )
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise o.wrong(BROKERS, f"{bootstrap!r} is not HOST:PORT,…: {error}") from None
    security = tuple(
        (name, value) for name in SECURITY_KEYS if (value := o.get(PREFIX + name)) is not None
    )
    client_id = o.get("kafka.client.id") or CLIENT_ID
    seconds = _milliseconds(o, MAX_BLOCK, BLOCK_MS, LONG_MAX)
    limit = TimeLimit(MAX_BLOCK, seconds)
    return ClusterSettings(bootstrap, False, security, client_id, limit, seconds, REQUEST_BYTES)


def _producer(o: OptionReader, *, must_be_idempotent: bool) -> ProducerSettings:
    acks = o.choice("kafka.acks", ("all", "-1", "0", "1"), "all")
    asked = (o.peek("kafka.enable.idempotence") or "").strip() == "true"
    if acks in ("0", "1") and (must_be_idempotent or asked):
        raise o.wrong(
            "kafka.acks", f"{acks} is too few for an idempotent producer, which needs all"
        )
    codec = CODECS[o.choice("kafka.compression.type", CODECS, "none")]
    levels = {kind: _level(o, kind) for kind in LEVELS}
    request = o.parse("kafka.max.request.size", between(1), REQUEST_BYTES, ABOVE_ZERO)
    return ProducerSettings(
        # With acks=0 a broker does not answer, so failures would not be noticed: acks=0 acts as 1.
        acks=-1 if acks in ("all", "-1") else 1,
        compression=codec,
        compression_level=levels.get(codec),
        batch_bytes=min(
            o.parse("kafka.batch.size", between(0), BATCH_BYTES, f"a number from 0 to {INT_MAX}"),
            request,
        ),
        linger_seconds=_milliseconds(o, "kafka.linger.ms", 5, LONG_MAX),
        buffer_bytes=o.parse(
            "kafka.buffer.memory", between(1, LONG_MAX), BUFFER_BYTES, "a number above 0"
        ),
        request_bytes=request,
        request_seconds=_milliseconds(o, "kafka.request.timeout.ms", REQUEST_MS),
        delivery_seconds=_milliseconds(o, "kafka.delivery.timeout.ms", DELIVERY_MS),
        block_seconds=_milliseconds(o, MAX_BLOCK, BLOCK_MS, LONG_MAX),
        ignores_keys=o.flag("kafka.partitioner.ignore.keys", False),
    )


def _level(o: OptionReader, kind: Compression) -> int | None:
    levels = LEVELS[kind]

    def convert(text: str) -> int:
        if (number := int(text)) not in levels:
            raise ValueError(text)
        return number

    return o.parse(
        f"kafka.compression.{kind.name.lower()}.level",
        convert,
        None,
        f"a level from {levels[0]} to {levels[-1]}",
    )


def _creation(o: OptionReader) -> CreatedTopics | None:
    partitions = _default_or_positive(o, "createTopics.partitions", INT_MAX)
    factor = _default_or_positive(o, "createTopics.replication.factor", FACTOR_MAX)
    if partitions is None and factor is None:
        return None
    return CreatedTopics(-1 if partitions is None else partitions, -1 if factor is None else factor)


def _exactly_once(o: OptionReader, *, streaming: bool) -> ExactlyOnce | None:
    guarantee = o.choice("deliveryGuarantee", (AT_LEAST_ONCE, EXACTLY_ONCE), AT_LEAST_ONCE)
    # It has no effect without exactly_once, but is accepted: a migrated job may set it for all its producers.
    timeout = o.parse("kafka.transaction.timeout.ms", between(1), TRANSACTION_MS, ABOVE_ZERO)
    if guarantee == AT_LEAST_ONCE:
        o.refuse(f"it is of deliveryGuarantee={EXACTLY_ONCE}", *EXACTLY_ONCE_OPTIONS)
        return None
    if not streaming:
        raise o.wrong(
            "deliveryGuarantee",
            f"{EXACTLY_ONCE} is of streams (df.writeStream): a batch job has no checkpoint that says what is written",
        )
    prefix = o.get("transactionalIdPrefix")
    if prefix is None:
        raise o.wrong(
            "transactionalIdPrefix",
            f"is required by deliveryGuarantee={EXACTLY_ONCE}: a name that only this query uses",
        )
    if not PREFIX_NAME.fullmatch(prefix) or set(prefix) <= {"."}:
        raise o.wrong(
            "transactionalIdPrefix",
            f"{prefix!r} is not 1 to 200 letters, digits, dots, underscores or hyphens",
        )
    return ExactlyOnce(
        prefix,
        timeout,
        o.flag("adoptCheckpoint", False),
        o.parse("acceptLostBatch", between(0, LONG_MAX), None, "a number from 0"),
    )


def _milliseconds(o: OptionReader, name: str, default: int, most: int = INT_MAX) -> float:
    return (
        o.parse(name, between(0, most), default, f"a number of milliseconds from 0 to {most}")
        / 1000
    )


def _default_or_positive(o: OptionReader, name: str, most: int) -> int | None:
    def convert(text: str) -> int:
        return -1 if int(text) == -1 else between(1, most)(text)

    return o.parse(name, convert, None, f"a number above 0, or -1; at most {most}")
