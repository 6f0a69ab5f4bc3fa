"""docs/errors.md has each error code with its number, says whether a client may try again, and names the codes that no
node of ours returns.
"""

import re
from pathlib import Path

import pytest

from trimaran.wire.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (-?\d+) \| `(\w+)` \| (yes|no) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "errors.md").read_text())
ROOMS = ("broker", "log", "node", "quorum", "wire", "zkcompat")
DECLARED = ROOT / "wire" / "errors.py"


def test_page_has_each_code_with_its_number():
    expected = [(str(int(code)), code.name, code.retriable) for code in sorted(ErrorCode)]
    assert [(number, name, again == "yes") for number, name, again, _ in ROWS] == expected


@pytest.mark.slow
def test_codes_that_nodes_never_use_are_named():
    files = {path for room in ROOMS for path in (ROOT / room).rglob("*.py")} - {DECLARED}
    used = {
        name for path in files for name in re.findall(r"ErrorCode\.([A-Z_]+)", path.read_text())
    }
    unused = {name for _, name, _, meaning in ROWS if meaning == "not returned by our nodes"}
    assert unused == {code.name for code in ErrorCode} - used
