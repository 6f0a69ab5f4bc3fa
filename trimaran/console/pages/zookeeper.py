"""ZooKeeper: the report of the mirror, and, on request, every znode that differs from the metadata."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trimaran.client.zookeeper import explained, properties_of
from trimaran.console.cluster import no_controllers, no_zookeeper
from trimaran.console.page import Page, PageRequest, table
from trimaran.errors.zookeeper import why_no_zookeeper
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.zkcompat.commands import checks, tree_views
    from trimaran.zkcompat.comparing.verify import VerifyReport
else:
    checks = imported_later("trimaran.zkcompat.commands.checks")
    tree_views = imported_later("trimaran.zkcompat.commands.tree_views")

# A tree of 50,000 partitions takes some seconds; the page gives up after this time.
COMPARE_SECONDS = 8.0
COMPARE = ("", "now")


def view(question: PageRequest) -> dict[str, Any]:
    connect = question.cluster.zookeeper
    if connect is None:
        raise no_zookeeper()
    compares = question.choice("compare", COMPARE) == "now"
    with explained():
        properties = properties_of(question.cluster.command_config)
        if error := why_no_zookeeper(connect):
            raise error
        found = tree_views.status(connect, properties)
        report = _compared(question, connect, properties) if compares else None
    rows = [] if report is None else [asdict(difference) for difference in report.differences]
    shown = table(question, rows, columns=("kind", "path"), sort="path", search=("kind", "path"))
    return {
        **shown,
        "status": {
            **asdict(found),
            "lag_records": found.lag_records,
            "mirror_alive": found.mirror_alive,
            "quorum_alive": found.quorum_alive,
            "healthy": found.healthy,
        },
        "lag": _lag(found, report),
        "summary": None if report is None else report.summary(),
        "in_step": None if report is None else report.in_step,
        "settled": None if report is None else report.settled,
    }


def _lag(found: tree_views.ZooKeeperStatus, report: VerifyReport | None) -> dict[str, int | None]:
    """Returns the lag by the quorum if it was queried, else the last one that the mirror reported."""
    if report is not None and report.lag_records is not None:
        return {"records": report.lag_records, "ms": report.lag_ms}
    return {"records": found.lag_records, "ms": found.mirror.lag_ms if found.mirror else None}


def _compared(question: PageRequest, connect: str, properties: dict[str, str]) -> Any:
    if question.cluster.controllers is None:
        raise no_controllers()
    target = checks.Target(question.cluster.controllers, connect, properties)
    return checks.verify(target, COMPARE_SECONDS)


PAGE = Page("/zookeeper", "ZooKeeper", "zookeeper.html", view)
