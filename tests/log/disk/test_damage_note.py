"""The note of damage: its exact content, its bound, and the reasons that are returned for a note that was lost."""

from __future__ import annotations

import pytest

from tests.log.recorded_files import RecordedFiles
from trimaran.log.disk.damage_note import FILE_NAME, note_damage, noted_damage
from trimaran.log.disk.files import REAL_FILES


def test_note_is_written_durably_and_returned(tmp_path):
    files = RecordedFiles()
    assert noted_damage(tmp_path, files) is None
    note_damage(tmp_path, "offset 7: wrong checksum", files)
    assert (tmp_path / FILE_NAME).read_bytes() == b"offset 7: wrong checksum"
    assert [line for line in files.taken() if line.startswith("sync")] == [
        "sync damaged.tmp",
        f"sync names in {tmp_path.name}",
    ]
    assert noted_damage(tmp_path, files) == "offset 7: wrong checksum"


@pytest.mark.parametrize("count", [999, 1000, 1001])
def test_thousand_characters_are_written_and_read(tmp_path, count):
    note_damage(tmp_path, "é" * count, REAL_FILES)
    assert (tmp_path / FILE_NAME).read_text() == "é" * min(count, 1000)
    (tmp_path / FILE_NAME).write_bytes(b"x" * count)
    assert noted_damage(tmp_path, REAL_FILES) == "x" * min(count, 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"\0\0torn\0", "torn"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b"", "it was found damaged, and {path} does not say why any more"),
        (b"\0" * 9, "it was found damaged, and {path} does not say why any more"),
        (
            None,
            "it was found damaged, and why cannot be read any more: "
            "{path} cannot be read: not a regular file",
        ),
    ],
)
def test_lost_note_still_refuses_the_log(tmp_path, text, expected):
    path = tmp_path / FILE_NAME
    if text is None:
        path.mkdir()
    else:
        path.write_bytes(text)
    assert noted_damage(tmp_path, REAL_FILES) == expected.format(path=path)
