"""The steps of a release that need git, in a repository of the test."""

import subprocess
from pathlib import Path

import pytest

from release import __main__ as release
from release import artifacts
from release.changelog import ReleaseRefused

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n- A thing.\n"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "someone@example.org")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-12-01T10:00:00Z")
    root = tmp_path / "repository"
    root.mkdir()
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    git(root, "init", "--quiet")
    git(root, "add", "CHANGELOG.md")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def git(root, *words):
    return subprocess.check_output(["git", "-C", str(root), *words], text=True)


def test_release_commits_changelog_and_tags_it(repository):
    at = artifacts.commit_time(repository)
    changelog = release.cut_changelog(repository, "0.2.0", at)
    release.commit_and_tag(repository, "0.2.0", changelog)
    assert "## [0.2.0] - 2026-12-01\n" in git(repository, "show", "v0.2.0:CHANGELOG.md")
    assert release.changes(repository) == []
    with pytest.raises(ReleaseRefused, match=r"tag v0\.2\.0 exists"):
        release.cut_changelog(repository, "0.2.0", at)


def test_release_with_uncommitted_files_is_refused(repository, capsys):
    (repository / "new.py").write_text("")
    assert release.main(["0.2.0"], repository) == 2
    assert "not committed: new.py" in capsys.readouterr().err
    assert git(repository, "tag") == ""
    assert (repository / "CHANGELOG.md").read_text() == CHANGELOG


def test_export_has_committed_files_only(repository, tmp_path):
    (repository / "new.py").write_text("")
    artifacts.export(repository, "HEAD", tmp_path / "tree")
    assert [path.name for path in (tmp_path / "tree").iterdir()] == ["CHANGELOG.md"]


def test_sums_are_those_that_sha256sum_accepts(tmp_path):
    (tmp_path / "b.whl").write_bytes(b"2")
    (tmp_path / "a.whl").write_bytes(b"1")
    assert artifacts.write_sums(tmp_path) == ["a.whl", "b.whl"]
    assert artifacts.write_sums(tmp_path) == ["a.whl", "b.whl"], "its own file is not among them"
    subprocess.run(["sha256sum", "--check", "--strict", artifacts.SUMS], cwd=tmp_path, check=True)


def test_report_of_dry_run_pushes_no_tag():
    text = release.report("0.2.0", Path("out"), ["a.whl"], ["cp313-macosx_arm64"], dry=True)
    assert "git push" not in text
    assert "twine upload" in text
    assert "git push origin HEAD v0.2.0" in release.report("0.2.0", Path("out"), [], [], dry=False)
