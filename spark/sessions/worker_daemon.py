"""The process from which Spark forks Python workers, with our sources loaded, so that no worker has to load them.

`trimaran.spark.sessions.session` starts it instead of `python -m pyspark.daemon MODULE` for local sessions. A query
needs about five workers; half a CPU second for each would exceed the work of most queries.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

MODULES = ("trimaran.spark.kafka_log.source", "trimaran.spark.kafka_metadata.source")
TASKS = "pyspark.worker"  # the modules that read data; all other modules only plan
TASK_MODULES = ("pandas",)  # Arrow checks every value for the types of this package


def preload(worker_module: str) -> None:
    """Loads the modules that workers will need. An error is ignored here: workers raise it again, and can report it."""
    # Spark has a worker for each core, and threads of BLAS, which is not used here, do not survive a fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in (worker_module, *MODULES, *(TASK_MODULES if worker_module == TASKS else ())):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # A worker collects garbage after each task (`pyspark.daemon`), which takes 40 ms for the modules loaded here.
    gc.collect()
    gc.freeze()


def search_path(path: list[str], spark_home: str | None) -> list[str]:
    """Returns the search path of `python -m` without Spark's zips and jars: the installed PySpark is loaded without
    compiling it.

    Each worker would list the zips again for each package in them (`importlib.invalidate_caches`).
    """
    own = [] if spark_home is None else [p for p in path if p.startswith(spark_home + os.sep)]
    return [os.getcwd(), *(p for p in path[1:] if p not in own)]


if __name__ == "__main__":
    sys.path[:] = search_path(sys.path, os.environ.get("SPARK_HOME"))
    preload(sys.argv[1])
    from pyspark.daemon import manager

    manager()
