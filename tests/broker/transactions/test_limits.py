"""Each configuration key sets the limit that Kafka documents; defaults are those of the keys."""

from tests.cluster.data_side import config
from trimaran.broker.transactions.limits import TransactionLimits


def test_limits_are_those_of_the_keys():
    keys = {
        "transaction_max_timeout_ms": 11,
        "transactional_id_expiration_ms": 12,
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": 13,
        "transaction_remove_expired_transaction_cleanup_interval_ms": 14,
        "transaction_state_log_load_buffer_size": 15,
        "transaction_state_log_num_partitions": 16,
        "request_timeout_ms": 17,
        "add_partitions_to_txn_retry_backoff_ms": 18,
        "add_partitions_to_txn_retry_backoff_max_ms": 19,
    }
    settings = {name: str(value) for name, value in keys.items()}
    assert TransactionLimits.of(config(**settings)) == TransactionLimits(
        timeout_ms_max=11,
        id_expiration_ms=12,
        abort_interval_ms=13,
        expiry_interval_ms=14,
        load_buffer_bytes=15,
        partition_count=16,
        commit_timeout_ms=17,
        add_retry_ms=18,
        add_retry_ms_max=19,
    )
    assert TransactionLimits.of(config()) == TransactionLimits()
