"""A partition's log against transcripts, with each call of the file system and each byte of its indexes: see
`testdata/`.
"""

from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from tests.log.partitions.interaction import Interaction

TRANSCRIPTS = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_log_matches_its_transcript(tmp_path, path):
    check_transcript(path, Interaction(tmp_path).answer)


def test_transcripts_exist():
    assert len(TRANSCRIPTS) >= 6
