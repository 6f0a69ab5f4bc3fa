"""User-facing errors for failures of `spark/`, without stack frames of Python or the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimaran.errors.user_error import Exit, UserError
from trimaran.spark import options
from trimaran.spark.analyses import catalogue
from trimaran.spark.data_source import tracebacks
from trimaran.spark.origins import origin
from trimaran.spark.sessions import java

WRITTEN = "trimaran doctor checks the machine; a directory that is being written to can be read again in a moment"
ELSEWHERE = "start a cluster with trimaran up, or name the directory of the nodes' logs with --data"


@contextmanager
def explained(data: Path) -> Iterator[None]:
    """Raises UserError if Spark, Java, an analysis or readable data is missing."""
    try:
        tracebacks.silence_query_loggers()
        yield
    except ModuleNotFoundError as error:
        fix = "pip install 'trimaran[spark]'"
        raise UserError("Spark is not installed", f"{error}", fix) from error
    except java.JavaNotFound as error:
        fix = "install a JDK 17 or newer, or: pip install 'trimaran[java]'"
        raise UserError("Spark cannot run here", f"{error}", fix) from error
    except catalogue.UnknownAnalysis as error:
        raise UserError(
            "there is no such analysis",
            f"{error}",
            "trimaran analyze without a name runs all analyses",
            exit_code=Exit.USAGE,
        ) from error
    except options.OptionError as error:
        fix = "name the directory of one cluster with --data"
        raise UserError(f"the logs in {data} cannot be read together", f"{error}", fix) from error
    except origin.DataUnreadable as error:
        fix = ELSEWHERE if is_nothing(f"{error}") else WRITTEN
        raise UserError(f"the logs in {data} cannot be read", f"{error}", fix) from error


def is_nothing(why: str) -> bool:
    """Returns whether the error means that there are no logs at the given path."""
    return why.startswith("no log directory")
