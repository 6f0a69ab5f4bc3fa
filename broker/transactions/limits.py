"""The configuration of the transaction coordinator: Kafka's keys `transaction.*` and `transactional.id.*`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimaran.node.config.server import ServerConfig


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """The limits of the transaction coordinator; the defaults are those of Kafka 4.3."""

    timeout_ms_max: int = 900_000
    id_expiration_ms: int = 7 * 24 * 60 * 60_000
    abort_interval_ms: int = 10_000
    expiry_interval_ms: int = 3_600_000
    load_buffer_bytes: int = 5 << 20
    partition_count: int = 50
    # The maximum time for the commit of a write (request.timeout.ms, as in Kafka's coordinator).
    commit_timeout_ms: int = 30_000
    # The time for which brokers wait for a transaction that is still ending before they refuse to add to the next one.
    add_retry_ms: int = 20
    add_retry_ms_max: int = 100

    @classmethod
    def of(cls, config: ServerConfig) -> TransactionLimits:
        """Reads the limits from Kafka's keys."""
        return cls(
            timeout_ms_max=config["transaction.max.timeout.ms"],
            id_expiration_ms=config["transactional.id.expiration.ms"],
            abort_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            expiry_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            load_buffer_bytes=config["transaction.state.log.load.buffer.size"],
            partition_count=config["transaction.state.log.num.partitions"],
            commit_timeout_ms=config["request.timeout.ms"],
            add_retry_ms=config["add.partitions.to.txn.retry.backoff.ms"],
            add_retry_ms_max=config["add.partitions.to.txn.retry.backoff.max.ms"],
        )
