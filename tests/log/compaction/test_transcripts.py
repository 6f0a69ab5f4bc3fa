"""Compaction of one log against transcripts: the dirty part, the reads and writes of a round and its map, and the
remaining records.
"""

from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from tests.log.compaction.interaction import Interaction

TRANSCRIPTS = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_compaction_matches_its_transcript(tmp_path, path):
    check_transcript(path, Interaction(tmp_path).answer)


def test_transcripts_exist():
    assert len(TRANSCRIPTS) >= 3
