"""`./dev docs [VERSION]`: builds the manual as a site in `build/manual/VERSION`, by default `latest`.

A broken link, an anchor that no heading has, a page that is in no part, and a resource from the network are errors.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from docs.site.navigation import README, ROOT, Part, parts

SITE = ROOT / "build" / "manual"
SOURCE = ROOT / "build" / "manual-source"
# A page is complete without a network: browsers load from the site alone.
_REMOTE = re.compile(
    r"<(?:script|img|iframe)\b[^>]*\bsrc=\"(?:https?:)?//[^>]*>"
    r"|<link\b[^>]*\brel=\"(?:stylesheet|preload|icon)\"[^>]*\bhref=\"(?:https?:)?//[^>]*>"
)


def main(version: str = "latest") -> int:
    """Builds the site; returns the exit code."""
    if not re.fullmatch(r"[\w.]+", version):
        print(
            f"dev docs: {version!r} is no name of a version: use letters, digits and dots",
            file=sys.stderr,
        )
        return 2
    _gather()
    out = SITE / version
    os.environ["MANUAL_VERSION"] = version
    if code := _sphinx(out):
        return code
    remote = [
        f"{page.name}: {tag}"
        for page in out.glob("*.html")
        for tag in _REMOTE.findall(page.read_text())
    ]
    if remote:
        print("dev docs: pages load from the network:", *remote, sep="\n  ", file=sys.stderr)
        return 1
    _list_versions()
    print(f"dev docs: {len([*out.glob('*.html')])} pages: {out / 'index.html'}")
    return 0


def _sphinx(out: Path) -> int:
    shutil.rmtree(out, ignore_errors=True)
    strict = ("--fail-on-warning", "--keep-going", "--quiet")
    where = (
        "-d",
        str(SOURCE / ".doctrees"),
        "-c",
        str(Path(__file__).parent),
        str(SOURCE),
        str(out),
    )
    return build_main([*strict, "-b", "html", *where])


def _gather() -> None:
    """Writes the source of the site: the pages of `docs/`, the README's head, and a page for each part."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    ignored = shutil.ignore_patterns("site", "__pycache__")
    shutil.copytree(ROOT / "docs", SOURCE, ignore=ignored)
    readme = README.read_text()
    found = parts(readme)
    for page in {page for part in found for page in part.pages if page.parent == ROOT}:
        shutil.copy(page, SOURCE)
    for page in SOURCE.glob("*.md"):
        page.write_text(_moved(page.read_text()))
    head = readme.partition("\n## The manual\n")[0]
    files = [f"part_{part.title.lower().replace(' ', '_')}.md" for part in found]
    (SOURCE / "index.md").write_text(f"{_moved(head)}\n{_toctree('', files)}")
    for part, file in zip(found, files, strict=True):
        (SOURCE / file).write_text(_page_of(part, readme))


def _page_of(part: Part, readme: str) -> str:
    """Returns the page of a part: its section in the README, and what makes the navigation."""
    section = readme.partition(f"\n### {part.title}\n")[2]
    section = re.split(r"^##", section, maxsplit=1, flags=re.MULTILINE)[0]
    trees = [_toctree(group.title, [page.name for page in group.pages]) for group in part.groups]
    return "\n".join((f"# {part.title}\n", _moved(section), *trees))


def _toctree(caption: str, files: list[str]) -> str:
    head = [f":caption: {caption}"] if caption else []
    return "\n".join(("```{toctree}", ":hidden:", *head, "", *files, "```", ""))


def _moved(text: str) -> str:
    """Returns a text whose links lead to pages of one folder, with their titles in place of file names."""
    text = re.sub(r"(?<=\]\()(?:docs|\.\.)/", "", text)
    return re.sub(r"\[[\w/]+\.md\](?=\([\w]+\.md[#)])", "[]", text)


def _list_versions() -> None:
    """Writes the list that the switcher of every version reads, and a first page that leads to the newest version."""
    built = sorted((page.parent.name for page in SITE.glob("*/index.html")), reverse=True)
    built.sort(key="latest".__ne__)
    rows = [{"name": name, "version": name, "url": f"/{name}/"} for name in built]
    (SITE / "versions.json").write_text(json.dumps(rows, indent=1) + "\n")
    (SITE / "index.html").write_text(
        f'<meta http-equiv="refresh" content="0; url={built[0]}/index.html">\n'
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
