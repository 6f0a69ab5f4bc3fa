"""Keys of Apache Kafka 4.3 that mean nothing here: a file may set them, and the node says that it does not look at them.

Some are about what we do in another way (thread pools, socket buffers, purgatories), the others about what is not served.
"""

from __future__ import annotations

# Whole families, and what is left of encryption and authentication: tiered storage, share and streams groups, KIP-848 groups, metrics, quotas.
_PREFIXES = (
    "ssl.",
    "sasl.",
    "remote.",
    "share.",
    "group.share.",
    "group.streams.",
    "group.consumer.",
    "metric",
    "telemetry.",
    "log.cleaner.",
    "quota.",
    "controller.quota.",
    "replication.quota.",
    "alter.log.dirs.replication.quota.",
    "internal.",
    "listener.name.",
    "config.providers.",
)

_NAMES = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "alter.config.policy.class.name",
        "background.threads",
        "client.quota.callback.class",
        "config.providers",
        "connections.max.reauth.ms",
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "controller.socket.timeout.ms",
        "create.topic.policy.class.name",
        "delete.records.purgatory.purge.interval.requests",
        "early.start.listeners",
        "fetch.purgatory.purge.interval.requests",
        "follower.fetch.last.tiered.offset.enable",
        "group.coordinator.append.linger.ms",
        "group.coordinator.background.threads",
        "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.rebalance.protocols",
        "group.coordinator.threads",
        "kafka.metrics.polling.interval.secs",
        "kafka.metrics.reporters",
        "log.dir.failure.timeout.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.initial.task.delay.ms",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "offsets.topic.compression.codec",
        "principal.builder.class",
        "producer.purgatory.purge.interval.requests",
        "queued.max.request.bytes",
        "replica.selector.class",
        "replica.socket.receive.buffer.bytes",
        "replica.socket.timeout.ms",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transaction.partition.verification.enable",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.state.log.load.buffer.size",
        "transaction.state.log.segment.bytes",
        "transaction.two.phase.commit.enable",
        "transactional.id.expiration.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)


def is_ignored(key: str) -> bool:
    """Whether Kafka knows this key of a broker or controller, and we do not act on it."""
    return key in _NAMES or key.startswith(_PREFIXES)
