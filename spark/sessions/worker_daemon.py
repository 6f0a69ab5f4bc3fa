"""The process that Spark forks Python workers from, with our sources loaded, so that no worker has to load them.

`trimaran.spark.sessions.session` has it started in place of `python -m pyspark.daemon MODULE`, for local sessions.
A query takes some five workers, and half a CPU second each is more than most of its work.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

MODULES = ("trimaran.spark.kafka_log.source", "trimaran.spark.kafka_metadata.source")
TASKS = "pyspark.worker"  # of all that Spark runs in workers, what reads; the others plan
TASK_MODULES = ("pandas",)  # Arrow looks for its objects in all that it is given


def preload(worker_module: str) -> None:
    """Loads the modules that workers will need. They meet an error again, and can report it."""
    # Spark has a worker for each core, and a thread of BLAS, which nothing here uses, does not outlive a fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in (worker_module, *MODULES, *(TASK_MODULES if worker_module == TASKS else ())):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # A worker collects garbage after each task (`pyspark.daemon`): 40 ms each over all that is loaded here.
    gc.collect()
    gc.freeze()


def search_path(path: list[str], spark_home: str | None) -> list[str]:
    """As `python -m` has it, without Spark's own zips and jars: installed, PySpark is loaded without compiling it.

    Each worker reads their lists again for each package in them (`importlib.invalidate_caches`).
    """
    own = [] if spark_home is None else [p for p in path if p.startswith(spark_home + os.sep)]
    return [os.getcwd(), *(p for p in path[1:] if p not in own)]


if __name__ == "__main__":
    sys.path[:] = search_path(sys.path, os.environ.get("SPARK_HOME"))
    preload(sys.argv[1])
    from pyspark.daemon import manager

    manager()
