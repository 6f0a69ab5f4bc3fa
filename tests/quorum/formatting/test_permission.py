"""A directory without write permission is reported before the first write."""

import os

import pytest

from trimaran.quorum.formatting.permission import ensure_can_be_made

needs_a_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def test_existing_or_creatable_directory_is_usable(tmp_path, monkeypatch):
    ensure_can_be_made(tmp_path)
    ensure_can_be_made(tmp_path / "a" / "b")
    monkeypatch.chdir(tmp_path)
    ensure_can_be_made(type(tmp_path)("relative"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "a/b"])
def test_file_in_path_is_reported(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        ensure_can_be_made(tmp_path / "file" / below)


def test_dangling_link_in_path_is_reported(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError):
        ensure_can_be_made(tmp_path / "link")


@needs_a_user
def test_foreign_users_directory_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        ensure_can_be_made(tmp_path / "a")
