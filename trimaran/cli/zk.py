"""`zk start|mirror|status|tree|get|verify`: a real ZooKeeper, and the mirror of the metadata in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import (
    DEFAULT_DATA,
    ControllerBootstrap,
    Data,
    Zookeeper,
    controllers_of,
    zookeeper_of,
)
from trimaran.cli.output import Format, say, show_fields, show_json
from trimaran.cli.zookeeper_errors import why_no_zookeeper
from trimaran.errors import Exit, UserError

if TYPE_CHECKING:
    from trimaran.properties import Setting


@contextmanager
def explained() -> Iterator[None]:
    """Failures of the mirror's room as errors for people."""
    from zkcompat import commands
    from zkcompat.zookeeper_process import ZooKeeperUnavailableError

    try:
        yield
    except ZooKeeperUnavailableError as error:
        raise UserError(
            "cannot start ZooKeeper", str(error), "trimaran doctor shows what is missing"
        ) from error
    except commands.ZooKeeperUnreachableError as error:
        raise UserError(
            "ZooKeeper does not answer",
            str(error),
            "is it running? trimaran ps; or name it with -z HOST:PORT",
            exit_code=Exit.CANNOT_CONNECT,
        ) from error
    except commands.QuorumUnreachableError as error:
        raise UserError(
            "the quorum does not answer",
            str(error),
            "trimaran quorum status; or name it with -B HOST:PORT",
            exit_code=Exit.CANNOT_CONNECT,
        ) from error
    except commands.MirrorLockedError as error:
        raise UserError(
            "another mirror runs here", str(error), "stop it, or give this one another --state"
        ) from error
    except commands.WrongClusterError as error:
        raise UserError(
            "this ZooKeeper mirrors another cluster",
            str(error),
            "use another ZooKeeper, or a chroot: -z HOST:PORT/path",
        ) from error
    except ValueError as error:
        raise UserError(
            "an argument is wrong",
            str(error),
            "addresses are written HOST:PORT",
            exit_code=Exit.USAGE,
        ) from error


def zookeeper_to_ask(given: str | None, data: Path) -> str:
    """The ZooKeeper to ask, which is not known to be none. Raises UserError, ValueError."""
    connect = zookeeper_of(given, data)
    if error := why_no_zookeeper(connect):
        raise error
    return connect


def start(
    *,
    port: int = 2181,
    data: Annotated[Path, Parameter(name="--data")] = Path(".trimaran/zookeeper"),
) -> int:
    """Runs a real ZooKeeper until Ctrl-C or SIGTERM.

    Args:
        port: where it listens on 127.0.0.1; 0 takes a free port.
        data: its directory.
    """
    from trimaran.ports import ensure_nobody_listens
    from zkcompat.zookeeper_process import start_zookeeper

    ensure_nobody_listens(port)
    with explained():
        server = start_zookeeper(
            data.resolve(), port, own_process_group=True, stop_with_parent=True
        )
    try:
        say(f"ZooKeeper serves {server.connect}, data in {data}; Ctrl-C stops it")
        server.wait()
    except KeyboardInterrupt:
        return Exit.OK
    finally:
        server.stop()
    say(f"ZooKeeper ended; its output is in {data / 'zookeeper.out'}")
    return Exit.NO


def mirror(
    *,
    controllers: ControllerBootstrap = None,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    state: Annotated[Path | None, Parameter(name="--state")] = None,
    config: Annotated[Path | None, Parameter(name=["-c", "--config"])] = None,
) -> None:
    """Mirrors a quorum's metadata into ZooKeeper until SIGTERM or Ctrl-C; the quorum may be Apache Kafka's.

    Args:
        controllers: where to find the quorum.
        zookeeper: where to write, host:port with an optional chroot.
        data: the local cluster, when the two are not given.
        state: where the mirror keeps its ZooKeeper session between restarts.
        config: a .properties file with Kafka's zookeeper.* keys.
    """
    from trimaran.logs import set_up_mirror
    from trimaran.properties import read_file
    from zkcompat.commands import run_mirror

    settings = read_file(config) if config else {}
    _warn_without_effect(settings)
    properties = {key: setting.value for key, setting in settings.items()}
    connect = zookeeper or properties.get("zookeeper.connect") or zookeeper_of(None, data)
    bootstrap = controllers_of(controllers, data)
    say(f"mirroring {bootstrap} into {connect}")
    set_up_mirror()
    with explained():
        run_mirror(bootstrap, connect, state or data / "mirror", properties)


def _warn_without_effect(settings: Mapping[str, Setting]) -> None:
    """Of the keys that are the mirror's; its file may be that of a broker."""
    from node.config.key_warnings import warning_of

    for key, setting in settings.items():
        is_own = key.startswith("zookeeper.") and not key.endswith(".migration.enable")
        if is_own and (warning := warning_of(key)) is not None:
            say(f"warning: {setting.origin}: {warning}")


def status(
    *, zookeeper: Zookeeper = None, data: Data = DEFAULT_DATA, output: Format = "table"
) -> int:
    """Shows what the mirror last wrote; exit code 1 when no mirror is alive."""
    from zkcompat import commands

    with explained():
        found = commands.status(zookeeper_to_ask(zookeeper, data))
    show_fields({**asdict(found), "mirror_alive": found.mirror_alive}, output)
    return Exit.OK if found.mirror_alive else Exit.NO


def tree(
    path: str = "/",
    *,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    output: Format = "table",
) -> None:
    """Prints the znodes at and below a path."""
    from zkcompat import commands

    with explained():
        entries = commands.tree(zookeeper_to_ask(zookeeper, data), path)
    if output == "json":
        show_json([asdict(entry) for entry in entries])
        return
    for entry in entries:
        mark = " (ephemeral)" if entry.ephemeral else ""
        print(f"{entry.path}{mark}" + ("" if entry.text is None else f"  {entry.text}"))


def get(
    path: str, *, zookeeper: Zookeeper = None, data: Data = DEFAULT_DATA, output: Format = "table"
) -> int:
    """Prints the data of one znode; exit code 1 when it is not there."""
    from zkcompat import commands

    with explained():
        entry = commands.get(zookeeper_to_ask(zookeeper, data), path)
    if entry is None:
        say(f"{path} does not exist")
        return Exit.NO
    if output == "json":
        show_json(asdict(entry))
    else:
        print(entry.text or "")
    return Exit.OK


def verify(
    *,
    controllers: ControllerBootstrap = None,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    output: Format = "table",
) -> int:
    """Compares every mirrored znode with the metadata image; exit code 1 when one differs."""
    from zkcompat import commands

    with explained():
        report = commands.verify(
            controllers_of(controllers, data), zookeeper_to_ask(zookeeper, data)
        )
    if output == "json":
        show_json({**asdict(report), "in_step": report.in_step})
        return Exit.OK if report.in_step else Exit.NO
    for difference in report.differences:
        print(f"{difference.kind:<9} {difference.path}")
        if difference.kind == "different":
            print(f"  expected {difference.expected}\n  found    {difference.found}")
    print(report.summary() + ("" if report.settled else "  (the tree did not hold still)"))
    return Exit.OK if report.in_step else Exit.NO
