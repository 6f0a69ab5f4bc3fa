"""Jars from Maven Central by `mvn`, in a cache outside the repository."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.apache_kafka import CACHE, POM


def libraries(name: str, artifacts: Sequence[str], without_groups: Sequence[str] = ()) -> Path:
    """The folder with the artifacts (`group:name:version`) and what they need; fetched once.

    Args:
        name: of the folder, with the version in it: it is not fetched again when artifacts change.
        without_groups: groups whose artifacts are left out.
    """
    folder = CACHE / name
    complete = folder / "complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        exclusions = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>"
            for group in without_groups
        )
        dependencies = "".join(_dependency(artifact, exclusions) for artifact in artifacts)
        (folder / "pom.xml").write_text(POM.format(dependencies=dependencies))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        complete.touch()
    return folder / "libs"


def _dependency(artifact: str, exclusions: str) -> str:
    group, name, version = artifact.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version><exclusions>{exclusions}</exclusions></dependency>"
    )
