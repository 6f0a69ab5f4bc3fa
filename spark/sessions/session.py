"""A local Spark session that needs only wheels: it uses the Java of the machine or of a wheel, and the driver's Python
for workers.

Java: see `trimaran.spark.sessions.java`; `trimaran.spark.sessions.class_archive` halves the time that it takes to
start.

Python: workers are forked from `spark/sessions/worker_daemon.py` instead of Spark's own daemon. Spark has a setting for
that, but ignores it when it plans a read; so Python is started through a wrapper, too.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trimaran.spark.sessions import class_archive
from trimaran.spark.sessions.java import cache_folder, java_home, write_script
from trimaran.spark.sources import register
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pyspark
    from pyspark import errors as spark_errors
    from pyspark import sql
    from pyspark.sql import SparkSession
else:
    pyspark = imported_later("pyspark")
    spark_errors = imported_later("pyspark.errors")
    sql = imported_later("pyspark.sql")

PYTHON_WRAPPER = """#!/bin/sh
# Starts Python, and in place of the process that Spark forks its workers from, ours. Memory of a worker's chunks, some
# 8 MB each, stays with it: glibc would get each from the kernel anew, a page fault for each page.
if [ "$1 $2" = "-m pyspark.daemon" ]; then
  shift 2
  export MALLOC_MMAP_THRESHOLD_="${{MALLOC_MMAP_THRESHOLD_:-33554432}}"
  export MALLOC_TRIM_THRESHOLD_="${{MALLOC_TRIM_THRESHOLD_:-67108864}}"
  export MALLOC_TOP_PAD_="${{MALLOC_TOP_PAD_:-16777216}}"
  exec {python} {daemon} "$@"
fi
exec {python} "$@"
"""


def session(
    local_cores: int = 2,
    *,
    app_name: str = "trimaran",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Opens (or returns) a session: UTC, no UI, Arrow on, quiet, our sources registered.

    Args:
        local_cores: the number of tasks that run concurrently in this process; ignored if `master` is given.
        app_name: the name that Spark shows.
        master: a cluster, as in `spark://HOST:7077`. Its workers need the wheel and the same Python version; they run
            the Python that `spark.pyspark.python` of `conf` or `PYSPARK_PYTHON` names, else the path of this one.
        conf: Spark settings; they override ours.

    Raises:
        JavaNotFound: there is no usable Java; the message explains how to install one.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    choose_python(master, conf or {})
    builder = sql.SparkSession.builder.master(master or f"local[{local_cores}]").appName(app_name)
    spark = _started(builder, is_local=master is None, conf=conf or {})
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def choose_python(master: str | None, conf: Mapping[str, str]) -> None:
    """Sets the variables that name the Python of the driver and of workers."""
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master is None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYSPARK_PYTHON"] = str(worker_python())
        return
    # Spark's own default is the first python3 of the path, which may be another one.
    given = conf.get(PYTHON_SETTING) or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = given or sys.executable


def _started(
    builder: SparkSession.Builder, *, is_local: bool, conf: Mapping[str, str]
) -> SparkSession:
    """Starts the session with the archive of classes if possible, and without it if that fails."""
    # The options of a running JVM are fixed.
    is_fresh = is_local and pyspark.SparkContext._gateway is None  # noqa: SLF001 - nobody else tells
    sharing = class_archive.options(conf) if is_fresh else []
    try:
        return _configured(builder, settings(is_local, conf, sharing)).getOrCreate()
    except spark_errors.PySparkRuntimeError:
        if not sharing:
            raise
        class_archive.forget()
        return _configured(builder, settings(is_local, conf)).getOrCreate()


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder


SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
}
LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "4",  # for small local data the default of 200 is only overhead
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
PYTHON_SETTING = "spark.pyspark.python"  # only spark-submit reads it
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Quiet: our log4j configuration instead of Spark's.
LOGGING = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
# Short sessions start fast with these options; long ones need the JVM's full compiler and its default collector.
FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Settings of a session with much work.
FULL_COMPILER = {JAVA_OPTIONS: "-XX:+UseParallelGC"}


def settings(
    is_local: bool, conf: Mapping[str, str], sharing: Sequence[str] = ()
) -> dict[str, str]:
    """Returns our settings, overridden by the user's; Java options are combined, with those for `sharing` classes."""
    made = {**SETTINGS, **(LOCAL_SETTINGS if is_local else {})}
    own = (*FAST_START, *sharing) if is_local and JAVA_OPTIONS not in conf else ()
    options = [shlex.quote(option) for option in (LOGGING, *own)]
    options += [conf[JAVA_OPTIONS]] if JAVA_OPTIONS in conf else []
    return {**made, **conf, JAVA_OPTIONS: " ".join(options)}


def worker_python() -> Path:
    """Returns the wrapper that starts Python for workers of a local session; see the module's docstring."""
    name = hashlib.sha256(sys.prefix.encode()).hexdigest()[:16]  # the Python of the environment
    daemon = Path(__file__).with_name("worker_daemon.py")
    text = PYTHON_WRAPPER.format(
        python=shlex.quote(sys.executable), daemon=shlex.quote(str(daemon))
    )
    wrapper = cache_folder() / "python" / name
    write_script(wrapper, text)
    return wrapper
