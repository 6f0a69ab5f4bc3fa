"""Checkouts of suites that no package index has: `./dev interop -k suites --sources FOLDER` names their folder."""

import os
from pathlib import Path

# Used by `python -m tests.interop.suites`, and set by pytest's option.
VARIABLE = "TRIMARAN_SUITE_SOURCES"


def folder(name):
    """Returns the checkout of that name; None if no folder was given, or it lacks this checkout."""
    named = os.environ.get(VARIABLE)
    found = Path(named).absolute() / name if named else None
    return found if found and found.is_dir() else None
