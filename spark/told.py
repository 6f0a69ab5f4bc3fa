"""How our errors reach users: as what they say, not below the frames of Spark's Python worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spark.options import OptionError
from spark.origins.origin import DataUnreadable

# What PySpark's worker asks when it writes down the exception that ends it.
_HIDES_FRAMES = "SPARK_HIDE_TRACEBACK"


@contextmanager
def told_without_frames() -> Iterator[None]:
    """Inside of a worker of Spark our own errors are told without a traceback; others, which are bugs, with it.

    The worker ends with the exception, so nobody else's is cut short.
    """
    try:
        yield
    except (OptionError, DataUnreadable):
        if "pyspark.worker_util" in sys.modules and "pyspark.shell" not in sys.modules:
            os.environ[_HIDES_FRAMES] = "1"
        raise
