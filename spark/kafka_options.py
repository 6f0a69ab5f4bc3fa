"""Decides about each option of Spark's Kafka connector, and each property (`kafka.…`) of Kafka's clients.

A job that is migrated from the connector may set such options. Each acts, has no effect (the reader says so once), or
is refused with the reason and the remedy. Sources: `KafkaSourceProvider` of spark-sql-kafka-0-10 4.2, `ConsumerConfig`
and `ProducerConfig` of Kafka 3.9 and 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from trimaran.node.config.security_keys import CLIENT_SECURITY

PREFIX = "kafka."
Effect = Literal["acts", "no effect", "refused"]


@dataclass(frozen=True, slots=True)
class KafkaOption:
    """An option of the connector.

    Args:
        name: as users write it, with `kafka.` if it is a property of clients.
        why: what it does; why it has no effect; or why it is refused, and what to use.
        harmless: values that end like this are accepted, since they request what happens here anyway.
    """

    name: str
    effect: Effect
    why: str
    harmless: tuple[str, ...] = ()


def _acting(**options: str) -> tuple[KafkaOption, ...]:
    return tuple(KafkaOption(name, "acts", why) for name, why in options.items())


def _properties(effect: Effect, why: str, names: str) -> tuple[KafkaOption, ...]:
    return tuple(KafkaOption(PREFIX + name, effect, why) for name in names.split())


def _one(name: str, effect: Effect, why: str, *harmless: str) -> KafkaOption:
    return KafkaOption(PREFIX + name, effect, why, harmless)


GROUP = "no consumer group is used"
NO_JAVA = "classes of Java do not run here"
OWN_CLIENT = "connections are those of our own client"
TASK_SIZE = "tasks are cut by size: splitBytes, minPartitions"

SOURCE_OPTIONS = (
    *_acting(
        subscribe="topics, parted by commas",
        subscribePattern="a regular expression that is found in the name; internal topics never match",
        assign='partitions, as {"orders":[0,1]}',
        startingOffsets='earliest, latest (streams), or {"orders":{"0":23}}; -2 is earliest, -1 latest',
        startingTimestamp="milliseconds, for all partitions; takes precedence over the others",
        startingOffsetsByTimestamp="milliseconds by partition",
        startingOffsetsByTimestampStrategy="error, or latest if no record is that late",
        endingOffsets="of a batch: latest, or as startingOffsets",
        endingTimestamp="of a batch: milliseconds, for all partitions",
        endingOffsetsByTimestamp="of a batch: milliseconds by partition",
        failOnDataLoss="true; false: missing or damaged data causes a warning and is omitted",
        includeHeaders="true adds the column headers",
        minPartitions="the minimum number of tasks",
        maxOffsetsPerTrigger="of a stream: the maximum of a micro-batch; no effect on a batch",
        minOffsetsPerTrigger="of a stream: the minimum of a micro-batch; no effect on a batch",
        maxTriggerDelay="of a stream: how long a micro-batch waits for the minimum; no effect on a batch",
    ),
    KafkaOption(
        "kafkaConsumer.pollTimeoutMs", "acts", "how long a task waits for a broker, 120,000"
    ),
    KafkaOption("maxRecordsPerPartition", "no effect", TASK_SIZE),
    KafkaOption("groupIdPrefix", "no effect", GROUP),
    KafkaOption(
        "fetchOffset.numRetries", "no effect", "requests are repeated until the time limit"
    ),
    KafkaOption(
        "fetchOffset.retryIntervalMs", "no effect", "requests are repeated until the time limit"
    ),
    KafkaOption("_mockSystemTime", "refused", "it is of the connector's own tests; leave it out"),
)
SINK_OPTIONS = (KafkaOption("topic", "acts", "the topic of rows without a column topic"),)

_SECURITY = tuple(KafkaOption(PREFIX + key.name, "acts", key.doc) for key in CLIENT_SECURITY)
# Properties of consumers and producers.
_CLIENT_PROPERTIES = (
    _one("bootstrap.servers", "acts", "HOST:PORT of some brokers, parted by commas"),
    _one("client.id", "acts", "the name that brokers know this client by: logs, quotas"),
    *_SECURITY,
    *_properties(
        "no effect",
        OWN_CLIENT,
        "client.dns.lookup bootstrap.resolve.timeout.ms connections.max.idle.ms receive.buffer.bytes send.buffer.bytes "
        "reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms "
        "socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms metadata.max.age.ms "
        "metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms metadata.cluster.check.enable",
    ),
    *_properties(
        "no effect",
        "there are no metrics of a Java client",
        "auto.include.jmx.reporter metric.reporters metrics.num.samples metrics.recording.level "
        "metrics.sample.window.ms enable.metrics.push",
    ),
    *_properties(
        "no effect",
        "TLS is that of Python",
        "ssl.protocol ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm "
        "ssl.secure.random.implementation",
    ),
    *_properties(
        "no effect",
        "each connection logs in with a fresh token",
        "sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor "
        "sasl.login.refresh.window.jitter sasl.login.connect.timeout.ms sasl.login.read.timeout.ms "
        "sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms",
    ),
    *_properties(
        "no effect",
        "brokers check tokens, clients do not",
        "sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer "
        "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer "
        "sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms "
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.url "
        "sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name",
    ),
    *_properties(
        "no effect",
        "tickets are those of the machine, which renews them",
        "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter "
        "sasl.kerberos.ticket.renew.window.factor",
    ),
    _one(
        "sasl.login.callback.handler.class",
        "refused",
        f"{NO_JAVA}; the mechanisms are PLAIN, SCRAM-SHA-…, OAUTHBEARER",
        ".OAuthBearerLoginCallbackHandler",
        ".OAuthBearerUnsecuredLoginCallbackHandler",
    ),
    _one(
        "sasl.client.callback.handler.class",
        "refused",
        f"{NO_JAVA}; the mechanisms are PLAIN, SCRAM-SHA-…, OAUTHBEARER",
        ".OAuthBearerSaslClientCallbackHandler",
    ),
    _one("sasl.login.class", "refused", f"{NO_JAVA}; kafka.sasl.jaas.config has the credentials"),
    _one(
        "ssl.engine.factory.class",
        "refused",
        f"{NO_JAVA}; kafka.ssl.keystore.… and kafka.ssl.truststore.… name files",
        ".DefaultSslEngineFactory",
    ),
    _one("security.providers", "refused", f"{NO_JAVA}; leave it out"),
    _one("config.providers", "refused", f"{NO_JAVA}; write values instead of ${{…}}"),
    _one("interceptor.classes", "refused", f"{NO_JAVA}; change rows by functions of Spark"),
)
CONSUMER_PROPERTIES = (
    *_CLIENT_PROPERTIES,
    _one("isolation.level", "acts", "read_uncommitted, or read_committed: no aborted records"),
    _one("max.partition.fetch.bytes", "acts", "bytes of a response, 4 MiB"),
    _one("check.crcs", "acts", "false: as verifyCrc=false"),
    *_properties(
        "no effect",
        GROUP,
        "group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms session.timeout.ms "
        "max.poll.interval.ms partition.assignment.strategy auto.commit.interval.ms internal.leave.group.on.close",
    ),
    *_properties(
        "no effect",
        "a task fetches as fast as it can; kafka.max.partition.fetch.bytes bounds a response",
        "fetch.min.bytes fetch.max.bytes fetch.max.wait.ms max.poll.records",
    ),
    _one("default.api.timeout.ms", "acts", "how long the driver waits for a broker, 60,000"),
    _one(
        "request.timeout.ms",
        "no effect",
        "kafka.default.api.timeout.ms and kafkaConsumer.pollTimeoutMs limit each request",
    ),
    _one("allow.auto.create.topics", "no effect", "a read never creates a topic"),
    _one("client.rack", "no effect", "records are read from leaders"),
    _one("exclude.internal.topics", "no effect", "subscribe reads internal topics by name"),
    _one(
        "internal.throw.on.fetch.stable.offset.unsupported", "no effect", "it is of Kafka Streams"
    ),
    *_properties(
        "no effect",
        "it is of share consumers",
        "share.acknowledgement.mode share.acquire.mode",
    ),
    _one(
        "auto.offset.reset",
        "refused",
        "startingOffsets says where a query begins; failOnDataLoss, what happens if records are gone",
    ),
    _one("enable.auto.commit", "refused", f"{GROUP}; a stream's checkpoint holds its offsets"),
    *_properties(
        "refused",
        "key and value are bytes; CAST, from_json or from_avro decode them",
        "key.deserializer value.deserializer",
    ),
)
PRODUCER_PROPERTIES = (
    *_CLIENT_PROPERTIES,
    _one("acks", "acts", "all; 1 is not idempotent, and 0 is treated as 1"),
    _one("compression.type", "acts", "none, gzip, snappy, lz4, zstd"),
    *_properties(
        "acts",
        "level of the codec",
        "compression.gzip.level compression.lz4.level compression.zstd.level",
    ),
    _one("batch.size", "acts", "bytes of a batch"),
    _one("linger.ms", "acts", "how long a batch waits for more records"),
    _one("max.request.size", "acts", "bytes of a request, and so of a record"),
    _one("request.timeout.ms", "acts", "limit of each request"),
    _one("delivery.timeout.ms", "acts", "limit from a record to its acknowledgement"),
    _one("transaction.timeout.ms", "acts", "how long a transaction may be open"),
    _one("buffer.memory", "acts", "bytes of a task's batches; more wait"),
    _one("max.block.ms", "acts", "limit of the wait for a topic that does not exist"),
    _one("partitioner.ignore.keys", "acts", "true: keys do not choose the partition"),
    *_properties(
        "no effect",
        "the writer waits for its own batches",
        "buffer.memory.allocation.strategy max.in.flight.requests.per.connection retries "
        "metadata.max.idle.ms",
    ),
    *_properties(
        "no effect",
        "rows without a partition are spread as by Kafka's default partitioner",
        "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.rack.aware "
        "client.rack",
    ),
    _one("partitioner.class", "refused", f"{NO_JAVA}; the column partition chooses"),
    _one(
        "enable.idempotence",
        "refused",
        "writes are idempotent, unless kafka.acks is 0 or 1; leave it out",
        "true",
    ),
    *_properties(
        "refused",
        "the sink names and ends its transactions; leave it out",
        "transactional.id transaction.two.phase.commit.enable",
    ),
    *_properties(
        "refused",
        "key and value are bytes or text; CAST, to_json or to_avro encode them",
        "key.serializer value.serializer",
    ),
)


def _table(
    own: Iterable[KafkaOption], others: Iterable[KafkaOption], other: str
) -> Mapping[str, KafkaOption]:
    """Returns options by their names in lower case; those only of the other direction have no effect."""
    foreign = (KafkaOption(o.name, "no effect", f"it is of {other}") for o in others)
    return {option.name.lower(): option for option in (*foreign, *own)}


_READ = (*SOURCE_OPTIONS, *CONSUMER_PROPERTIES)
_WRITTEN = (*SINK_OPTIONS, *PRODUCER_PROPERTIES)
READING = _table(_READ, _WRITTEN, "writing")
WRITING = _table(_WRITTEN, _READ, "reading")
METADATA_READING = {
    **_table(CONSUMER_PROPERTIES, PRODUCER_PROPERTIES, "writing"),
    "kafka.bootstrap.servers": _one(
        "bootstrap.servers", "refused", "kafka.controller.bootstrap.servers names the quorum"
    ),
    "kafka.isolation.level": _one("isolation.level", "no effect", "metadata is always committed"),
    "kafka.check.crcs": _one("check.crcs", "no effect", "verifyCrc is the option of this format"),
}
