"""The core against the transcripts in `testdata/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from tests.quorum.raft.interaction import Interaction

TRANSCRIPTS = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_is_reproduced(path: Path) -> None:
    check_transcript(path, Interaction().handle)


def test_transcripts_exist() -> None:
    assert len(TRANSCRIPTS) >= 6
