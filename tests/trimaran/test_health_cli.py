"""`health` waits for the given time, and no longer."""

import pytest

from trimaran.cli import health as command
from trimaran.cli.connect import LEADER_SECONDS, Brokers
from trimaran.client import quorum
from trimaran.client.health import WARNING, Reason
from trimaran.errors.user_error import Exit
from trimaran.testing import EmbeddedKafka


@pytest.mark.parametrize("about", ["not-preferred", "clocks", "certificates"])
def test_waiting_ends_with_a_healthy_sentence(monkeypatch, capsys, about):
    """Notes about a healthy cluster do not keep the command waiting."""
    note = Reason(WARNING, "something to know", about)
    monkeypatch.setattr(command, "_of_mirror", lambda _: [note])
    with EmbeddedKafka() as kafka:
        brokers = Brokers(bootstrap=kafka.bootstrap)
        assert command.health(exit_when_healthy=True, brokers=brokers) == Exit.OK
    assert capsys.readouterr().out.splitlines()[0] == "Healthy, but something to know."


def test_other_reasons_make_cluster_unhealthy(monkeypatch, capsys):
    reasons = [Reason(WARNING, "no mirror is alive", "zookeeper"), Reason(WARNING, "n", "clocks")]
    monkeypatch.setattr(command, "_of_mirror", lambda _: reasons)
    with EmbeddedKafka() as kafka:
        assert command.health(brokers=Brokers(bootstrap=kafka.bootstrap)) == Exit.NO
    assert capsys.readouterr().out.startswith("Needs a look: no mirror is alive, and 1 more.\n")


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
