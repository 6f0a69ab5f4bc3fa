"""An archive of Spark's classes in the form in which a JVM has loaded them (class data sharing, JEP 350): loading and
verifying the classes takes half of the start of a session.

The JVM of the first local session writes the file when it ends; later ones map it. The wrapper around `java`
(`trimaran.spark.sessions.java`) renames it when that JVM has ended without an error, so no session sees an incomplete
file. Each version of Java and PySpark has its own file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from trimaran.node.runtime.clock import now_ms
from trimaran.spark.sessions.java import RECORDING, cache_folder, found_java, version_text

SUFFIX = ".jsa"
KEPT = 2  # the number of archives to keep, of 160 MB each: that of this environment and one other
# A session that takes longer was probably killed; two concurrent writers are harmless.
RECORDING_SECONDS_MAX = 3600
# Settings that change the class path or the JVM: with any of these no archive is written.
ENVIRONMENT = (
    *("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
    *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
)
DRIVERS = "spark.driver."  # settings of memory, class path and Java options
# The JVM would print on stdout the classes that it cannot keep.
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def options(conf: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """Returns the JVM's options: to use the archive, to write it, or none if neither is possible. Raises
    JavaNotFound.
    """
    java = found_java()
    archive = _archive_of(java)
    if archive is None:
        return []
    if archive.exists():
        return [*QUIET, f"-XX:SharedArchiveFile={archive}"]
    if may_record(java, conf, environ) and _is_first(archive):
        return [*QUIET, f"-XX:ArchiveClassesAtExit={archive}{RECORDING}"]
    return []


def forget() -> None:
    """Deletes an archive with which the JVM does not start. Raises JavaNotFound."""
    if (archive := _archive_of(found_java())) is not None:
        archive.unlink(missing_ok=True)


def _archive_of(java: Path) -> Path | None:
    """Returns the path of the archive; None if Spark's jars are not PySpark's."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    seen = hashlib.sha256(f"{java.resolve()}\n{version_text(java)}".encode())
    for jar in sorted(Path(spec.submodule_search_locations[0], "jars").glob("*.jar")):
        found = jar.stat()
        seen.update(f"{jar} {found.st_size} {found.st_mtime_ns}\n".encode())
    return cache_folder() / "classes" / f"spark-{seen.hexdigest()[:16]}{SUFFIX}"


def may_record(java: Path, conf: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """True if the JVM can write an archive: it does not start with that option if it has no archive of its own classes,
    or cannot use it.
    """
    own = java.resolve().parent.parent / "lib" / "server" / "classes.jsa"
    return (
        own.exists()
        and not any(name in environ for name in ENVIRONMENT)
        and not any(name.startswith(DRIVERS) for name in conf)
    )


def _is_first(archive: Path) -> bool:
    """True if no other session is writing the archive, so that this one may."""
    with contextlib.suppress(OSError):
        archive.parent.mkdir(parents=True, exist_ok=True)
        _clear(archive.parent)
        archive.with_name(archive.name + RECORDING).touch(exist_ok=False)
        return True
    return False


def _clear(folder: Path) -> None:
    """Deletes unfinished files that are old, and all except the newest archives, before another one is written."""
    long_ago = now_ms() / 1000 - RECORDING_SECONDS_MAX
    begun = [path for path in folder.glob(f"*{RECORDING}") if path.stat().st_mtime < long_ago]
    newest_first = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: -path.stat().st_mtime)
    for path in (*begun, *newest_first[KEPT - 1 :]):
        path.unlink(missing_ok=True)
