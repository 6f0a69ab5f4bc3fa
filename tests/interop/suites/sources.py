"""Checkouts of suites that no package index carries: `./dev interop -k suites --sources FOLDER` says where they are."""

import os
from pathlib import Path

# `python -m tests.interop.suites` takes it from here; the option of pytest sets it.
VARIABLE = "TRIMARAN_SUITE_SOURCES"


def folder(name):
    """The checkout of that name; None when no folder is named or it lacks this one."""
    named = os.environ.get(VARIABLE)
    found = Path(named).absolute() / name if named else None
    return found if found and found.is_dir() else None
