"""`analyze`: Spark over the logs of a cluster, a report with plots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trimaran.cli.connect import DEFAULT_DATA, Data
from trimaran.cli.output import say


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
    from spark.report import write_report

    target = html or data / "report"
    index = write_report(data.resolve(), target.resolve(), names=list(names) or None)
    say("open the report in a browser:")
    print(index)
