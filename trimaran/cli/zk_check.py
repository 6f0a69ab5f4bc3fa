"""`zk verify|diff|resync`: compares the tree with the quorum."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import (
    DEFAULT_DATA,
    ControllerBootstrap,
    Data,
    DryRun,
    Zookeeper,
    controllers_of,
)
from trimaran.cli.output import Format, put, say, say_unknown, show_data, show_item
from trimaran.cli.progress import progress
from trimaran.cli.zk import Config, zookeeper_to_ask
from trimaran.client import zookeeper as client_zookeeper
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.escaping import one_line
from trimaran.node.text.wording import counted
from trimaran.wire.identity import Offset
from trimaran.zkcompat.commands import checks

if TYPE_CHECKING:
    from trimaran.zkcompat.comparing.verify import VerifyReport


COMPARING = "comparing ZooKeeper with the metadata"


def verify(
    *,
    controllers: ControllerBootstrap = None,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    config: Config = None,
    watch: Annotated[float | None, Parameter(name="--watch")] = None,
    output: Format = "table",
) -> int:
    """Compares every mirrored znode with the current metadata. Exit code 1 if one differs.

    If the file of --config sets zookeeper.set.acl=true, excessive permissions of other users count as differences, too.

    Args:
        watch: Compare again this many seconds after each report, until Ctrl-C; JSON is then one report per line.
    """
    with client_zookeeper.explained():
        target = _target(controllers, zookeeper, data, config)
        if watch is None:
            with progress(COMPARING):
                report = checks.verify(target)
        else:
            report = checks.verify(
                target, watch=lambda r: _show_one(r, output), interval_seconds=watch
            )
    if not show_data(_json(report), output):
        _show(report)
    return Exit.OK if report.in_step else Exit.NO


def diff(
    *,
    at: Annotated[int, Parameter(name="--at")],
    controllers: ControllerBootstrap = None,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    config: Config = None,
    output: Format = "table",
) -> int:
    """Compares every mirrored znode with the metadata as it was at an offset. Exit code 1 if one differs.

    Args:
        at: The offset in the metadata log.
    """
    with client_zookeeper.explained():
        target = _target(controllers, zookeeper, data, config)
        try:
            with progress(COMPARING):
                report, image = checks.diff(target, Offset(at))
        except checks.OffsetUnknownError as error:
            raise UserError(
                f"there is no image at offset {at}",
                str(error),
                "trimaran zk status shows the published offset",
                exit_code=Exit.NO,
            ) from error
    if image.provenance.offset != at:
        say(
            f"offset {at} is inside a batch: compared with {image.provenance.offset}, the batch before"
        )
    if not show_data(_json(report), output):
        _show(report)
    return Exit.OK if report.in_step else Exit.NO


def resync(
    *,
    controllers: ControllerBootstrap = None,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    config: Config = None,
    dry_run: DryRun = False,
    output: Format = "table",
) -> int:
    """Makes the active mirror compare everything now, and repair the differences.

    With --dry-run it prints what would be written. Exit code 1 if there is anything to write.
    """
    with client_zookeeper.explained():
        target = _target(controllers, zookeeper, data, config)
        if not dry_run:
            with progress("waiting for the mirror"):
                done = checks.resync(target)
            show_data({"compared": done}, output)
            say("the mirror compared everything" if done else "no mirror answered within a minute")
            return Exit.OK if done else Exit.TIMEOUT
        with progress(COMPARING):
            operations = checks.planned_repairs(target)
    fields = ("kind", "path", "sentence")
    rows = [
        (each_operation.kind.value, each_operation.path, each_operation.sentence)
        for each_operation in operations
    ]
    if not show_data([dict(zip(fields, row, strict=True)) for row in rows], output):
        for operation in operations:
            put(one_line(operation.sentence))
    say(f"{counted(len(operations), 'operation')} would be written; nothing was changed")
    return Exit.NO if operations else Exit.OK


def _target(
    controllers: str | None, zookeeper: str | None, data: Path, config: Path | None
) -> checks.Target:
    properties = client_zookeeper.properties_of(config)
    connect = zookeeper_to_ask(zookeeper, data, properties)
    return checks.Target(controllers_of(controllers, data), connect, properties)


def _json(report: VerifyReport) -> dict[str, object]:
    return {**asdict(report), "in_step": report.in_step}


def _show_one(report: VerifyReport, output: str) -> None:
    """Prints one of many reports."""
    if not show_item(_json(report), output):
        _show(report)


def _show(report: VerifyReport) -> None:
    for difference in report.differences:
        put(f"{difference.kind:<10} {one_line(difference.path)}")
        if difference.kind == "different":
            for word, text in (("expected", difference.expected), ("found   ", difference.found)):
                put(f"  {word} {one_line(str(text))}")
        elif difference.kind in ("acl", "unreadable"):
            put(f"  {difference.found or 'no permission to read it'}")
    end = "" if report.settled else "  (the tree kept changing)"
    put(report.summary() + end, flush=True)
    say_unknown(report.unknown)
