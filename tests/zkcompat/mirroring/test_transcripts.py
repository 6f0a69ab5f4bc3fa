"""The mirror step by step; each file of `testdata` is a transcript (`transcript`)."""

from pathlib import Path

import pytest

from tests.datadriven import check_transcript, parse_transcript
from tests.zkcompat.mirroring.transcript import outputs_of

FILES = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
async def test_mirror_matches_its_transcript(autojump_clock, path, caplog, monkeypatch):
    steps = list(parse_transcript(path.read_text()))
    outputs = await outputs_of(steps, caplog, monkeypatch)
    check_transcript(path, lambda step: outputs[step.line])
