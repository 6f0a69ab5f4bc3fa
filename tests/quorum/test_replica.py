"""A replica as its configuration wants it."""

from __future__ import annotations

from quorum.replica import timeouts_of
from tests.quorum.config_of import config_of


def test_a_linger_that_was_set_is_obeyed_and_an_unset_one_is_none():
    key = "controller_quorum_append_linger_ms"
    assert timeouts_of(config_of(**{key: 40})).append_linger == 0.04
    assert timeouts_of(config_of(**{key: 0})).append_linger == 0
    assert timeouts_of(config_of(**{key: 25})).append_linger == 0.025, "Kafka's default, if said"
    assert timeouts_of(config_of()).append_linger == 0
