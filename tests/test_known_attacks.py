"""The table of known attacks in docs/security.md: every row names an existing test."""

from __future__ import annotations

import hmac
import re
from collections import Counter
from pathlib import Path

import pytest

from trimaran.wire.security.sasl import plain
from trimaran.wire.security.sasl.authenticator import AuthenticationFailed
from trimaran.wire.security.sasl.plain import PlainExchange

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "security.md"
# Attacks on Apache Kafka itself, on its compressors, and on clients whose mistake a broker could repeat.
CVES = """
    2017-12610 2018-1288 2018-17196 2019-12399 2021-38153 2022-34917 2023-25194 2023-34453 2023-34454 2023-34455
    2023-43642 2024-27309 2024-31141 2024-56128 2025-27817 2025-27818 2025-27819 2026-10142 2026-10143 2026-33557
    2026-35554 2026-83525 2026-110985 2026-111073 2026-111108 2026-111115
"""


def rows() -> list[tuple[list[str], str]]:
    """Returns the numbers and the test of each row."""
    section = PAGE.read_text().split("## Known attacks\n")[1].split("\n## ")[0]
    lines = [
        line.strip("|").split("|") for line in section.splitlines() if re.match(r"\| 20", line)
    ]
    return [(re.findall(r"20\d\d-\d+", cells[0]), cells[-1].strip(" `")) for cells in lines]


def test_each_attack_has_a_row():
    found = Counter(number for numbers, _ in rows() for number in numbers)
    assert found == Counter(CVES.split())


@pytest.mark.parametrize("shown_by", sorted({test for _, test in rows()}))
def test_tests_named_as_evidence_exist(shown_by):
    file, _, name = shown_by.partition("::")
    (path,) = [path for path in TESTS.rglob(file) if f"def {name}(" in path.read_text()]
    assert path.name == file


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_passwords_are_compared_in_constant_time(monkeypatch, name):
    """CVE-2021-38153: this applies to existing and missing users."""
    compared, compare = [], hmac.compare_digest

    def compare_digest(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return compare(one, other)

    monkeypatch.setattr(plain.hmac, "compare_digest", compare_digest)
    with pytest.raises(AuthenticationFailed):
        PlainExchange({"alice": "secret"}).evaluate(f"\0{name}\0secrex".encode())
    assert compared == [b"secrex"]
