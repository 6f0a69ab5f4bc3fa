"""`docs/house.svg` is drawn from the imports between the packages (`REWRITE_TRANSCRIPTS=1` writes it).

Packages are in the order of import-linter's contract "layers". A line leaves the right side of each package and runs
down. A dot joins it to the arrow of each package that the first one imports.
"""

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from tests import datadriven

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "house.svg"
FRONT_DOOR = "trimaran"  # the first layer of the contract is the folders of this package; no other layer imports it
NAMED = re.compile(r"trimaran\.(\w+)")

# pixels
BOX_LEFT, BOX_WIDTH, PADDING = 20, 600, 16
LINE_HEIGHT = 20
GAP_IN_LAYER, GAP_BETWEEN_LAYERS = 6, 26
LINE_DISTANCE = 28
NAMES_LEFT = BOX_LEFT + 120
NAMES_CHARACTERS_MAX = 62

HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
  font-family="sans-serif" font-size="14">
  <title>The packages of trimaran, their folders, and the imports between the packages</title>
  <style>
    .page {{ fill: #ffffff }}
    .box {{ fill: #ddf4ff; stroke: #0969da }}
    text {{ fill: #1f2328 }}
    .name {{ font-weight: bold }}
    .line {{ fill: none; stroke: #57606a; stroke-width: 1.5 }}
    .dot, .tip {{ fill: #57606a }}
    @media (prefers-color-scheme: dark) {{
      .page {{ fill: #0d1117 }}
      .box {{ fill: #12283f; stroke: #4493f8 }}
      text {{ fill: #e6edf3 }}
      .line {{ stroke: #9198a1 }}
      .dot, .tip {{ fill: #9198a1 }}
    }}
  </style>
  <rect class="page" width="{width}" height="{height}"/>
"""
LEGEND = (
    "The line of a package leaves it at the right. A dot joins it to the arrow of each package that it imports.",
    "Boxes close together are one layer: they do not import each other.",
)


def layers() -> list[list[str]]:
    """Returns the packages of each layer, from the top down."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [each for each in linter["contracts"] if each["name"] == "layers"]
    below = [[name.strip() for name in row.split("|")] for row in contract["layers"][1:]]
    return [[FRONT_DOOR], *below]


def sources(package: str) -> Iterator[Path]:
    """Finds the files of a package. `rglob` does not follow the links in `trimaran` to the other packages."""
    return (ROOT / package).rglob("*.py")


def folders(package: str) -> list[str]:
    inside = {path.relative_to(ROOT / package).parts for path in sources(package)}
    return sorted({parts[0] for parts in inside if len(parts) > 1})


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Walks through the statements at every depth, but not through expressions, which have no imports."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(statement, field, []))


def imported(package: str, packages: AbstractSet[str]) -> set[str]:
    """Returns the other packages that the files of a package import, at the top of a file or in a function.

    A file is parsed only if its text names a package that has not been found yet: parsing all takes seconds.
    """
    found = {package}
    for source in sources(package):
        text = source.read_text()
        named = set(NAMED.findall(text))
        if named & packages <= found and "trimaran import" not in text:
            continue
        for statement in statements(ast.parse(text).body):
            modules: list[str] = []
            if isinstance(statement, ast.Import):
                modules = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                modules = [f"{statement.module}.{alias.name}" for alias in statement.names]
            found |= {match[1] for match in map(NAMED.match, modules) if match} & packages
    return found - {package}


class Box(NamedTuple):
    package: str
    lines: list[str]  # the names of the package's folders
    top: int

    @property
    def height(self) -> int:
        return 2 * PADDING + LINE_HEIGHT * (len(self.lines) - 1) + LINE_HEIGHT // 2

    @property
    def entry(self) -> int:
        """Returns the point where arrows end, above the point from which the package's own line starts."""
        return self.top + PADDING

    @property
    def exit(self) -> int:
        return self.top + self.height - PADDING // 2


def boxes() -> list[Box]:
    placed = []
    top = BOX_LEFT
    for layer in layers():
        for package in layer:
            lines = textwrap.wrap("   ".join(folders(package)), NAMES_CHARACTERS_MAX)
            placed.append(Box(package, lines, top))
            top += placed[-1].height + GAP_IN_LAYER
        top += GAP_BETWEEN_LAYERS - GAP_IN_LAYER
    return placed


def drawn_box(box: Box) -> Iterator[str]:
    first = box.top + PADDING + LINE_HEIGHT // 2
    yield (
        f'<rect class="box" x="{BOX_LEFT}" y="{box.top}" width="{BOX_WIDTH}" height="{box.height}" rx="6"/>'
    )
    yield f'<text class="name" x="{BOX_LEFT + PADDING}" y="{first}">{box.package}/</text>'
    for number, line in enumerate(box.lines):
        names = line.replace("   ", "\u2002 ")
        yield f'<text x="{NAMES_LEFT}" y="{first + number * LINE_HEIGHT}">{names}</text>'


def drawn_imports(placed: list[Box], imports: dict[str, set[str]]) -> Iterator[str]:
    """Returns the lines; that of the top package is the outermost, so that no line crosses the start of another."""
    right = BOX_LEFT + BOX_WIDTH
    importers = [box for box in placed if imports[box.package]]
    lines = {
        box.package: right + LINE_DISTANCE * (number + 1)
        for number, box in enumerate(reversed(importers))
    }
    for box in importers:
        last = max(target.entry for target in placed if target.package in imports[box.package])
        yield f'<path class="line" d="M{right} {box.exit}H{lines[box.package]}V{last}"/>'
    for target in placed:
        joined = [x for package, x in lines.items() if target.package in imports[package]]
        if joined:
            yield f'<path class="line" d="M{max(joined)} {target.entry}H{right + 8}"/>'
            yield f'<path class="tip" d="M{right} {target.entry}l9 -5v10z"/>'
        for x in joined:
            yield f'<circle class="dot" cx="{x}" cy="{target.entry}" r="4"/>'


def picture() -> str:
    placed = boxes()
    packages = {box.package for box in placed}
    imports = {package: imported(package, packages) for package in packages}
    bottom = placed[-1].top + placed[-1].height
    shapes = [shape for box in placed for shape in drawn_box(box)]
    shapes += drawn_imports(placed, imports)
    shapes += [
        f'<text x="{BOX_LEFT}" y="{bottom + (number + 1) * LINE_HEIGHT + PADDING}">{line}</text>'
        for number, line in enumerate(LEGEND)
    ]
    width = BOX_LEFT + BOX_WIDTH + LINE_DISTANCE * len(placed)
    head = HEAD.format(width=width, height=bottom + LINE_HEIGHT * len(LEGEND) + 2 * PADDING)
    return head + "".join(f"  {shape}\n" for shape in shapes) + "</svg>\n"


def test_picture_shows_imports_and_folders():
    drawn = picture()
    if datadriven.REWRITE:
        PICTURE.write_text(drawn)
    assert PICTURE.read_text() == drawn
