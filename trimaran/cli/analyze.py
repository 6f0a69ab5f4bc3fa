"""`analyze`: Spark over the logs of a cluster, a report with plots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trimaran.cli.connect import DEFAULT_DATA, Data
from trimaran.cli.output import say
from trimaran.errors import Exit, UserError


@contextmanager
def _explained(data: Path) -> Iterator[None]:
    """Failures of Spark's room as errors for people."""
    from spark.analyses.catalogue import UnknownAnalysis
    from spark.origins.origin import DataUnreadable
    from spark.session import JavaNotFound

    try:
        yield
    except ModuleNotFoundError as error:
        fix = "pip install 'trimaran[spark]'"
        raise UserError("Spark is not installed", f"{error}", fix) from error
    except JavaNotFound as error:
        fix = "install a JDK 17 or newer, or: pip install 'trimaran[java]'"
        raise UserError("Spark cannot run here", f"{error}", fix) from error
    except UnknownAnalysis as error:
        raise UserError(
            "there is no such analysis",
            f"{error}",
            "trimaran analyze without a name runs all",
            exit_code=Exit.USAGE,
        ) from error
    except DataUnreadable as error:
        fix = "trimaran doctor checks the machine; a directory that is being written to can be read again in a moment"
        raise UserError(f"the logs in {data} cannot be read", f"{error}", fix) from error


def analyze(
    *names: str,
    data: Data = DEFAULT_DATA,
    html: Annotated[Path | None, Parameter(name="--html")] = None,
) -> None:
    """Reads the metadata log and the data logs of the node directories below DATA and writes a report.

    Args:
        names: analyses to run; all when none is named.
        data: a local cluster's directory, or any directory that holds directories of nodes, ours or Apache Kafka's.
        html: the folder of the report; `DATA/report` when not given.
    """
    target = html or data / "report"
    with _explained(data):
        from spark.report import write_report

        index = write_report(data.resolve(), target.resolve(), names=list(names) or None)
    say("open the report in a browser:")
    print(index)
