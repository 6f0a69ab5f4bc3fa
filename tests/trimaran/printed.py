"""The output of a command as text of a transcript."""

import re

import pytest

from trimaran.cli.app import run


def printed(words, capsys):
    """Runs a command; returns its output, errors marked by `!` first, and its exit code if it is not 0.

    Spaces between columns count as two, since ports and times have different widths; ports and fractions of seconds are
    replaced.
    """
    with pytest.raises(SystemExit) as ended:
        run(words)
    said = capsys.readouterr()
    lines = [f"! {line}" for line in said.err.splitlines()] + said.out.splitlines()
    if ended.value.code:
        lines.append(f"exit {int(ended.value.code)}")
    text = "\n".join(line or "." for line in lines)
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text)
    text = re.sub(r"(?<![\d.])\d+\.\d+(?![\d.])", "SECONDS", text)
    return re.sub(r"(?m) +$", "", re.sub(r"(?<=\S) {2,}", "  ", text))
