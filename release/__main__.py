"""`./dev release [--dry-run] VERSION`: makes the files of a release in `build/release/VERSION`.

Without `--dry-run` the cut changelog is committed and tagged first. Nothing is published: the commands that publish are
printed at the end. With `--no-isolation` the build takes the tools of `.venv`, so it needs no package index.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from release import artifacts
from release.changelog import ReleaseRefused, cut, parse_version, sections

ROOT = Path(__file__).resolve().parent.parent
IMAGE = "trimaran"


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="./dev release", description=__doc__)
    parser.add_argument("version", metavar="VERSION")
    parser.add_argument("--dry-run", action="store_true", help="commit and tag nothing")
    parser.add_argument("--no-isolation", action="store_true", help="build with the tools of .venv")
    chosen = parser.parse_args(arguments)
    options = ("--no-isolation",) if chosen.no_isolation else ()
    try:
        _release(root, chosen.version, options, dry=chosen.dry_run)
    except ReleaseRefused as error:
        print(f"dev release: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"dev release: {error}", file=sys.stderr)
        return 1
    return 0


def _release(root: Path, version: str, options: tuple[str, ...], *, dry: bool) -> None:
    at = artifacts.commit_time(root)
    if dry:
        _warn(changes(root))
    changelog = cut_changelog(root, version, at)
    if not dry:
        if named := changes(root):
            raise ReleaseRefused(f"these files are not committed: {', '.join(named)}")
        commit_and_tag(root, version, changelog)
    out = root / "build" / "release" / version
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "trimaran")
        artifacts.export(root, "HEAD", tree)
        (tree / "CHANGELOG.md").write_text(changelog)
        (out / "notes.md").write_text(sections(changelog)[version] + "\n")
        artifacts.build_distributions(tree, out, version, at, *options)
        artifacts.write_bills(tree, out, version, at)
        wheels = artifacts.other_wheels(tree)
    (source,) = out.glob("trimaran-*.tar.gz")
    artifacts.check_image_context(source)
    names = artifacts.write_sums(out)
    print(report(version, out, names, wheels, dry=dry))


def cut_changelog(root: Path, version: str, at: datetime) -> str:
    """Returns the changelog of the release.

    Raises:
        ReleaseRefused: the version, the changelog or an existing tag does not allow it.
    """
    parse_version(version)
    tags = artifacts.run("git", "-C", root, "tag", "--list", f"v{version}").split()
    if tags:
        raise ReleaseRefused(
            f"the tag v{version} exists: check it out and build it, or choose another one"
        )
    return cut((root / "CHANGELOG.md").read_text(), version, at.date())


def changes(root: Path) -> list[str]:
    """Returns the files that differ from the commit."""
    lines = artifacts.run("git", "-C", root, "status", "--porcelain").splitlines()
    return [line[3:] for line in lines]


def commit_and_tag(root: Path, version: str, changelog: str) -> None:
    (root / "CHANGELOG.md").write_text(changelog)
    git = ("git", "-C", root)
    artifacts.run(*git, "commit", "--quiet", "-m", f"release: {version}", "CHANGELOG.md")
    artifacts.run(*git, "tag", "--annotate", "-m", f"trimaran {version}", f"v{version}")


def report(version: str, out: Path, names: list[str], wheels: list[str], *, dry: bool) -> str:
    """Returns what was made, what a builder for other systems makes, and what would be published."""
    image = f"{IMAGE}:{version}"
    source = f"trimaran-{version}.tar.gz"
    push = [] if dry else [f"git push origin HEAD v{version}"]
    lines = [
        f"dev release: {len(names)} files and {artifacts.SUMS} in {out}",
        *(f"  {name}" for name in names),
        "built by cibuildwheel, in containers and on macOS:",
        *(f"  {name}" for name in wheels),
        "not published; these commands publish:",
        *(f"  {command}" for command in push),
        f"  tar -xf {source} && buildah build --format docker -t {image} trimaran-{version}",
        f"  buildah push {image}",
        f"  ./dev docs {version}",
        "  twine upload *.whl *.tar.gz",
    ]
    if dry:
        lines.append(f"a dry run: CHANGELOG.md is as before, and there is no tag v{version}")
    return "\n".join(lines)


def _warn(names: list[str]) -> None:
    if names:
        print(
            f"dev release: not committed, so in no file of the release: {', '.join(names)}",
            file=sys.stderr,
        )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
