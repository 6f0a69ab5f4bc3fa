"""`metrics`: the metrics that nodes serve at `trimaran.metrics.listener`, side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from prometheus_client import parser

from trimaran.cli.connect import DEFAULT_DATA, Data
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import metrics_text
from trimaran.errors.user_error import Exit, UserError
from trimaran.local import state_file

Addresses = Annotated[list[str] | None, Parameter(name=["-a", "--address"], negative=())]

Key = tuple[str, str]
"""Name and labels of a sample, as text."""


def metrics(
    nodes: Annotated[list[str] | None, Parameter(negative=())] = None,
    /,
    *,
    only: str = "",
    address: Addresses = None,
    watch: float | None = None,
    data: Data = DEFAULT_DATA,
    output: Format = "table",
) -> int:
    """Prints the metrics of nodes side by side, by default of all nodes of the local cluster.

    Args:
        nodes: Names or ids of nodes of the local cluster; by default all.
        only: Only metrics with this text in their name or labels. Buckets of histograms are shown only with it.
        address: HOST:PORT of trimaran.metrics.listener of a node, or of any JMX exporter. May be repeated.
        watch: At this interval in seconds, print the metrics that have changed, and their change per second.
    """
    sources = sources_of(address, data, nodes)
    before = {name: _samples(where, only) for name, where in sources.items()}
    _show(before, output)
    while watch is not None:
        time.sleep(max(0.1, watch))
        now = {name: _samples(where, only) for name, where in sources.items()}
        _show_changes(before, now, max(0.1, watch), output)
        before = now
    return Exit.OK


def sources_of(
    addresses: list[str] | None, data: Path, names: list[str] | None = None
) -> dict[str, str]:
    """Returns the addresses of metrics by the name of their node: the given ones, or those of the local cluster. Raises
    UserError.
    """
    if addresses:
        return {address: address for address in addresses}
    state = state_file.read(state_file.nearest(data))
    chosen = list(state.nodes)
    if names:
        found = {name: state.node(name) for name in names}
        for name, node in found.items():
            if node is None:
                raise UserError(
                    f"there is no node {name} in the cluster in {data}",
                    f"its nodes are {', '.join(node.name for node in state.nodes)}",
                    "name one of them, or use --address HOST:PORT",
                    exit_code=Exit.USAGE,
                )
        chosen = [node for node in found.values() if node is not None]
    served = {node.name: node.metrics for node in chosen if node.metrics != "-"}
    if not served:
        raise UserError(
            f"the nodes of the cluster in {data} serve no metrics",
            "it was started without --metrics",
            "trimaran down, then trimaran up --metrics",
            exit_code=Exit.USAGE,
        )
    return served


def _samples(address: str, only: str) -> dict[Key, float]:
    found = {}
    for family in parser.text_string_to_metric_families(metrics_text.text_of(address)):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            if only in f"{sample.name} {labels}" if only else "le" not in sample.labels:
                found[sample.name, labels] = float(sample.value)
    return found


def _show(found: Mapping[str, Mapping[Key, float]], output: Format) -> None:
    rows = [
        {
            "metric": key[0],
            "labels": key[1],
            **{name: _number(values.get(key)) for name, values in found.items()},
        }
        for key in _keys(found)
    ]
    _print(rows, output, found)


def _show_changes(
    before: Mapping[str, Mapping[Key, float]],
    now: Mapping[str, Mapping[Key, float]],
    seconds: float,
    output: Format,
) -> None:
    rows = []
    for key in _keys(now):
        changes = {name: _change(before[name].get(key), now[name].get(key)) for name in now}
        if any(changes.values()):
            told = {name: _signed(change / seconds) for name, change in changes.items()}
            rows.append({"metric": key[0], "labels": key[1], **told})
    if output in ("table", "wide"):
        say(f"{time.strftime('%H:%M:%S')}  change per second:")
    _print(rows, output, now)


def _print(
    rows: list[dict[str, Any]], output: Format, nodes: Mapping[str, Mapping[Key, float]]
) -> None:
    if output == "json":
        output = "jsonl"  # a line for each of thousands of metrics; --watch prints repeatedly
    show_rows(rows, output, columns=["metric", "labels", *nodes])


def _keys(found: Mapping[str, Mapping[Key, float]]) -> list[Key]:
    return sorted({key for values in found.values() for key in values})


def _change(old: float | None, new: float | None) -> float:
    return 0.0 if old is None or new is None else new - old


def _number(value: float | None) -> float | int | None:
    if value is None:
        return None
    if not math.isfinite(value) or value == int(value):
        return int(value) if math.isfinite(value) else value
    return round(value, 3) if abs(value) >= 1000 else float(f"{value:.6g}")


def _signed(value: float) -> str:
    return f"{value:+.6g}" if value else ""
