"""Keys of transactions: the coordinator, its topic, timeouts, the verification of producers' writes.

Source: Kafka's `TransactionLogConfig`, `TransactionStateManagerConfig`, `AddPartitionsToTxnConfig`.
"""

from __future__ import annotations

from trimaran.node.config.key_rows import rows

_ACTING = rows(
    """
add.partitions.to.txn.retry.backoff.max.ms | int 0.. | 100 | high
    Longest time for which a broker retries to add a partition to a transaction that is still ending.
add.partitions.to.txn.retry.backoff.ms | int 1.. | 20 | high
    Time between two attempts of a broker to add a partition to a transaction.
transaction.abort.timed.out.transaction.cleanup.interval.ms | int 1.. | 10000 | low
    Time between searches for transactions that have timed out.
transaction.max.timeout.ms | int 1.. | 900000 | high
    Longest timeout that a producer may request for its transactions.
transaction.partition.verification.enable | boolean | true | low dynamic
    Whether a leader verifies with the coordinator that a partition belongs to the producer's transaction.
transaction.remove.expired.transaction.cleanup.interval.ms | int 1.. | 3600000 | low
    Time between searches for transactional ids that have expired.
transaction.state.log.load.buffer.size | int 1.. | 5242880 | high
    Bytes read at a time while a transaction coordinator loads its partitions.
transaction.state.log.min.isr | int 1.. | 2 | high
    min.insync.replicas of the topic __transaction_state.
transaction.state.log.num.partitions | int 1.. | 50 | high
    Partitions of the topic __transaction_state.
transaction.state.log.replication.factor | short 1.. | 3 | high
    Replicas of the topic __transaction_state.
transaction.state.log.segment.bytes | int 1.. | 104857600 | high
    Segment size of the topic __transaction_state.
transactional.id.expiration.ms | int 1.. | 604800000 | high
    Time after which an unused transactional id is forgotten.
""",
)
_WITHOUT_EFFECT = rows(
    """
transaction.two.phase.commit.enable | boolean | false | low
    Whether producers may take part in two-phase commits.
""",
    no_effect="two-phase commits (KIP-939) are not served; InitProducerId 6 is unstable in Apache Kafka 4.4, too",
)
TRANSACTIONS = (*_ACTING, *_WITHOUT_EFFECT)
