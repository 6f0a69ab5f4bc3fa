"""Shows users only the message of our errors, without the frames of Spark's Python worker or of the JVM."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.options import OptionError
from trimaran.spark.origins.damage import unreadable
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from py4j import protocol as py4j
    from pyspark import errors as spark_errors
    from pyspark import logger as spark_logger
else:
    py4j = imported_later("py4j.protocol")
    spark_errors = imported_later("pyspark.errors")
    spark_logger = imported_later("pyspark.logger")

# PySpark's worker reads this variable when it reports the exception that ended it.
_HIDES_FRAMES = "SPARK_HIDE_TRACEBACK"
_OURS = re.compile(r"(?:DataUnreadable|WriteFailed|OptionError|OSError|FileNotFoundError): (.+)")


@contextmanager
def without_frames() -> Iterator[None]:
    """Hides the tracebacks of our own errors in a Spark worker; other errors are bugs and keep theirs. An error of the
    operating system becomes DataUnreadable.

    The worker ends with the exception, so no other error is affected.
    """
    try:
        with _of_files():
            yield
    except (OptionError, DataUnreadable, WriteFailed):
        if "pyspark.worker_util" in sys.modules and "pyspark.shell" not in sys.modules:
            os.environ[_HIDES_FRAMES] = "1"
        raise


@contextmanager
def _of_files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataUnreadable(unreadable(error, "a file")) from None


def silence_query_loggers() -> None:
    """Silences PySpark's loggers, for programs that print the error of a query themselves: PySpark would log it again,
    with the JVM's stack as JSON.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        spark_logger.PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def captured() -> Iterator[None]:
    """Raises PySparkException even if several stages of a query fail at once, in which case PySpark itself raises an
    error of Py4J.
    """
    try:
        yield
    except py4j.Py4JJavaError as error:
        text = str(error)
        if _OURS.search(text) is None:
            raise
        raise spark_errors.PySparkException(text) from None


def cause_of(error: spark_errors.PySparkException) -> str:
    """Returns the message of our error, without the frames of Python and the JVM around it."""
    text = str(error)
    found = _OURS.findall(text)
    if found:
        return str(found[-1]).strip()
    head = re.split(
        r"\n\s*(?:at |JVM stacktrace|SQLSTATE)|;\n'|\nTraceback", text.strip(), maxsplit=1
    )[0]
    return head.strip()
