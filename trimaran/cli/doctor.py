"""`doctor`: each line ok, warn or fail, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict

from trimaran.cli.output import Format, show_rows
from trimaran.doctor import examine
from trimaran.errors import Exit


def doctor(*, output: Format = "table") -> int:
    """Checks this machine: what is there, what is missing, how to install it. Exit code 1 if a check fails."""
    findings = examine()
    show_rows([asdict(f) for f in findings], output, columns=["level", "check", "found", "fix"])
    return Exit.NO if any(f.level == "fail" for f in findings) else Exit.OK
