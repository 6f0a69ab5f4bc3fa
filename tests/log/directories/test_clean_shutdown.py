"""The marker of a clean shutdown: its exact bytes, each damage, and its removal before the start continues."""

from __future__ import annotations

import errno

import pytest

from trimaran.log.directories.clean_shutdown import FILE_NAME, take_marker, write_marker
from trimaran.log.disk.files import REAL_FILES, Files


class Noted(Files):
    """Notes the calls that remove the marker; `error` is raised by the removal."""

    def __init__(self, error=None):
        super().__init__()
        self.calls, self.error = [], error

    def unlink(self, path):
        self.calls.append(f"remove {path.name}")
        if self.error is not None:
            raise OSError(self.error, "refused")
        super().unlink(path)

    def fsync_directory(self, path):
        self.calls.append(f"sync {path.name}")
        super().fsync_directory(path)


@pytest.mark.parametrize("epoch", [-1, 0, 42, 2**63 - 1])
def test_marker_returns_its_epoch_once(tmp_path, epoch):
    write_marker(tmp_path, epoch, REAL_FILES)
    assert (tmp_path / FILE_NAME).read_bytes() == b'{"version":0,"brokerEpoch":%d}' % epoch
    files = Noted()
    assert take_marker(tmp_path, files) == epoch
    assert files.calls == [f"remove {FILE_NAME}", f"sync {tmp_path.name}"]
    assert take_marker(tmp_path, files) is None
    assert len(files.calls) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", -1),
        (" ", None),
        ('{"version":0,"brokerEpoch":7,"more":1}', 7),
        ('{"version":0,"brokerEpoch":-2}', None),
        ('{"version":1,"brokerEpoch":7}', None),
        ('{"version":0,"brokerEpoch":7.0}', None),
        ('{"version":0,"brokerEpoch":true}', None),
        ('{"version":0,"brokerEpoch":"7"}', None),
        ('{"version":0}', None),
        ('{"brokerEpoch":7}', None),
        ("[7]", None),
        ("7", None),
        ("[" * 100_000, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_damaged_marker_counts_as_a_crash(tmp_path, caplog, text, expected):
    """A damaged marker is removed, too."""
    (tmp_path / FILE_NAME).write_text(text)
    assert take_marker(tmp_path, REAL_FILES) == expected
    assert not (tmp_path / FILE_NAME).exists()
    assert (f"{FILE_NAME} is damaged" in caplog.text) is (expected is None)


@pytest.mark.parametrize("text", ['{"version":0,"brokerEpoch":7}', "damaged"])
def test_marker_that_stays_counts_as_missing(tmp_path, caplog, text):
    (tmp_path / FILE_NAME).write_text(text)
    assert take_marker(tmp_path, Noted(errno.EACCES)) is None
    assert ("cannot be removed" in caplog.text) is (text != "damaged")
    assert (tmp_path / FILE_NAME).exists()


def test_failing_disk_is_no_missing_marker(tmp_path):
    write_marker(tmp_path, 7, REAL_FILES)
    with pytest.raises(OSError, match="refused"):
        take_marker(tmp_path, Noted(errno.EIO))
