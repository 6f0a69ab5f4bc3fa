"""Jars that `mvn` fetches from Maven Central into a cache outside the repository."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.interop.apache_kafka import CACHE, POM


def libraries(name: str, artifacts: Sequence[str], without_groups: Sequence[str] = ()) -> Path:
    """Returns the folder with the artifacts (`group:name:version`) and their dependencies, which are fetched once.
    Args: name: name of the folder. It contains the version, because changed artifacts are not fetched again.
    without_groups: groups of artifacts to omit.
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


def newest(artifact: str, least: str) -> str:
    """Returns the newest version of an artifact (`group:name`) that Maven finds, from `least` on. It is looked up at
    each call; the artifact itself is fetched once.
    """
    with tempfile.TemporaryDirectory() as folder:
        dependency = _dependency(f"{artifact}:[{least},)", "")
        Path(folder, "pom.xml").write_text(POM.format(dependencies=dependency))
        options = ("-DexcludeTransitive=true", "-DoutputDirectory=libs")
        command = ["mvn", "-q", "-B", "-U", "dependency:copy-dependencies", *options]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (jar,) = Path(folder, "libs").glob("*.jar")
    return jar.stem.removeprefix(f"{artifact.partition(':')[2]}-")


def _dependency(artifact: str, exclusions: str) -> str:
    group, name, version = artifact.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version><exclusions>{exclusions}</exclusions></dependency>"
    )
