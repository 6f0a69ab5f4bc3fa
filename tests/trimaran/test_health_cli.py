"""`health` waits for the given time, and no longer."""

import pytest

from trimaran.cli import health as command
from trimaran.cli.connect import LEADER_SECONDS, Brokers
from trimaran.client import quorum
from trimaran.errors.user_error import Exit
from trimaran.testing import EmbeddedKafka


@pytest.mark.parametrize(("timeout", "waits"), [(0.5, 0.5), (60.0, LEADER_SECONDS)])
def test_leader_is_awaited_within_timeout(monkeypatch, capsys, timeout, waits):
    """An election ends within LEADER_SECONDS, so a longer wait would be useless."""
    waited = []

    def ask_quorum(client, seconds):
        waited.append(seconds)
        return asked(client, seconds)

    asked = quorum.ask_quorum
    monkeypatch.setattr(quorum, "ask_quorum", ask_quorum)
    with EmbeddedKafka() as kafka:
        brokers = Brokers(bootstrap=kafka.bootstrap, timeout=timeout)
        assert command.health(brokers=brokers) == Exit.OK
    assert waited == [waits]
    assert capsys.readouterr().out.startswith("Healthy: 1 voter caught up")
