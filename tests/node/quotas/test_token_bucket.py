"""Token buckets: full at first, emptied by use, refilled by time."""

import pytest

from trimaran.node.quotas.client_limits import TokenBucket

BURST_SECONDS = 100.0


def test_overdraft_is_missing_until_refilled():
    """Kafka's example: 5 per second, 100 windows of a second, 560 at once."""
    bucket = TokenBucket(BURST_SECONDS)
    assert bucket.tokens(5.0, 10.0) == 500
    bucket.take(560, 5.0, 10.0)
    assert bucket.delay(5.0, 10.0) == 12
    assert bucket.delay(5.0, 16.0) == 6
    assert bucket.delay(5.0, 22.0) == 0


def test_bucket_never_exceeds_burst():
    bucket = TokenBucket(BURST_SECONDS)
    bucket.take(1, 5.0, 0.0)
    assert bucket.tokens(5.0, 1e6) == 500


def test_overdraft_survives_rate_change():
    bucket = TokenBucket(BURST_SECONDS)
    bucket.take(560, 5.0, 0.0)
    assert bucket.delay(60.0, 0.0) == pytest.approx(1.0)
    assert bucket.tokens(60.0, 2.0) == pytest.approx(60.0)


def test_lower_rate_cuts_tokens_above_burst():
    bucket = TokenBucket(BURST_SECONDS)
    assert bucket.tokens(5.0, 0.0) == 500
    assert bucket.tokens(1.0, 0.0) == 100
