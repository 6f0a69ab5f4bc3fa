"""Kafka Streams 4.4 with `group.protocol=streams` (KIP-1071) and exactly_once_v2, while nodes and instances are killed.

The claims are those of `suites/applications/streams.py` with the classic protocol. `--minutes 10` is a long run.
"""

import pytest

from tests.interop import apache_kafka, java_programs, kills
from tests.interop.suites.applications import streams
from tests.interop.suites.applications.claims import Claims


@pytest.mark.client("Java", "streams groups", version=apache_kafka.VERSION)
@pytest.mark.parametrize("kind", ["kafka", "ours"])
def test_words_are_exact_while_nodes_die(kind, tmp_path, minutes, monkeypatch):
    if reason := java_programs.why_not():
        pytest.skip(reason)
    monkeypatch.setenv(kills.MINUTES, str(minutes))
    log = tmp_path / "claims.log"
    with Claims("streams", log) as claims:
        streams.run(kind, tmp_path, claims, "streams")
    assert set(claims.states.values()) == {"passed"}, log.read_text()
