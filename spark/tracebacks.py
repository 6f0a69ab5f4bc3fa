"""Our errors reach users by their message alone: without frames of Spark's Python worker, or of the JVM."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spark.options import OptionError
from spark.origins.origin import DataUnreadable

# What PySpark's worker asks when it writes down the exception that ends it.
_HIDES_FRAMES = "SPARK_HIDE_TRACEBACK"


@contextmanager
def without_frames() -> Iterator[None]:
    """Inside of a worker of Spark our own errors come without a traceback; others, which are bugs, with it.

    The worker ends with the exception, so nobody else's is cut short.
    """
    try:
        yield
    except (OptionError, DataUnreadable):
        if "pyspark.worker_util" in sys.modules and "pyspark.shell" not in sys.modules:
            os.environ[_HIDES_FRAMES] = "1"
        raise


def silence_query_loggers() -> None:
    """For programs that print the error of a query themselves: PySpark logs it too, with the JVM's stack as JSON."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
