"""`trimaran topics` and `trimaran records` on a real node: what each command prints, and its exit code."""

import re
import shlex
from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from tests.trimaran.printed import printed
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.testing import EmbeddedKafka
from trimaran.wire.blocking import BlockingClient


@pytest.fixture
def driven(capsys, monkeypatch):
    """Returns a function that runs a step: `trimaran` and its words, `errors` and its words for the messages only, or
    `write TOPIC PARTITION COUNT`.
    """
    with EmbeddedKafka() as kafka, BlockingClient(kafka.bootstrap) as client:
        monkeypatch.setenv("TRIMARAN_BOOTSTRAP", kafka.bootstrap)
        monkeypatch.setattr(
            "trimaran.cli.app._end_like_ctrl_c", lambda: None
        )  # this process continues

        def step(asked):
            words = shlex.split(asked.source.splitlines()[-1])
            if words[0] == "write":
                lines = [(None, b"v%d" % i) for i in range(int(words[3]))]
                IdempotentProducer(client, words[1]).send(int(words[2]), lines)
                return "ok"
            told = printed(words[1:], capsys)
            if words[0] == "errors":
                return "\n".join(line for line in told.splitlines() if line[:1] in ("!", "e"))
            return re.sub(r"(?m)(^id +|TopicId: )\S+", r"\1ID", told)

        yield step


def test_topic_commands_print_as_in_transcript(driven):
    check_transcript(Path(__file__).parent / "testdata/topics_cli.txt", driven)
