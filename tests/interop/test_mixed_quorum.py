"""Our controllers and Apache Kafka 4.4's in one quorum: a leader of each kind is killed. `python -m
tests.interop.mixed_quorum` kills twenty of each.
"""

import pytest

from tests.interop.mixed_quorum import run


@pytest.mark.parametrize("kinds", [("ours", "ours", "kafka"), ("ours", "kafka", "kafka")])
def test_no_acknowledged_record_is_lost_to_dying_leaders(tmp_path, kinds):
    outcome = run(tmp_path, kinds, 1)
    assert min(outcome.kills.values()) >= 1
    assert outcome.acknowledged > 5
    assert outcome.lost == 0
    assert outcome.bytes_compared > 1000
    assert "0 problems" in outcome.verified
