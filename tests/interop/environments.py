"""Virtual environments with packages that this project does not need, in addition to those of its tests."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.programs.named import ROOT


def environment(name: str, packages: Sequence[str]) -> Path:
    """Returns the folder of programs of an environment, which is made once.

    Args:
        name: the name of its folder. Change it with the packages, because they are not fetched again.
        packages: requirements of pip.
    """
    folder = CACHE / name
    complete, programs = folder / "complete", folder / "bin"
    if not complete.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    (inner,) = folder.glob("lib/python*/site-packages")
    # This checkout and its packages are imported, too; pip does not install these again.
    (inner / "ours.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    if not complete.exists():
        pip = [programs / "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", ROOT / "constraints.txt", *packages], check=True)
        complete.touch()
    return programs
