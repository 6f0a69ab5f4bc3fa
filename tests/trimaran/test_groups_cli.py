"""`trimaran groups` with a group of each kind: what each command prints, and its exit code."""

import shlex
from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from tests.trimaran import group_members
from tests.trimaran.printed import printed
from trimaran.testing import EmbeddedKafka
from trimaran.wire.blocking import BlockingClient

SETTINGS = {
    "group.coordinator.append.linger.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
# The only user may do everything on resources without ACLs.
WITH_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture
def driven(request, capsys, monkeypatch):
    """Returns a function that runs a step: `trimaran` and its words, or a request of a member."""
    settings = SETTINGS | getattr(request, "param", {})
    with EmbeddedKafka(settings) as kafka, BlockingClient(kafka.bootstrap) as client:
        kafka.create_topic(group_members.TOPIC, partitions=1)
        kafka.create_topic("payments", partitions=2)
        monkeypatch.setenv("TRIMARAN_BOOTSTRAP", kafka.bootstrap)
        monkeypatch.setattr(
            "trimaran.cli.app._end_like_ctrl_c", lambda: None
        )  # this process continues

        def step(asked):
            words = shlex.split(asked.source.splitlines()[-1])
            if words[0] == "trimaran":
                return printed(words[1:], capsys)
            if words[0] == "commit":
                return group_members.commit(client, words[1], int(words[2])) or ""
            return getattr(group_members, words[0])(client, *words[1:]) or ""

        yield step


def test_groups_of_every_kind_are_shown_and_changed(driven):
    check_transcript(Path(__file__).parent / "testdata/groups_cli.txt", driven)


@pytest.mark.parametrize("driven", [WITH_ACLS], indirect=True)
def test_group_commands_are_refused_without_rights(driven):
    check_transcript(Path(__file__).parent / "testdata/groups_rights_cli.txt", driven)
