"""`up`, `ps`, `down`, `purge`: the local cluster."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import DEFAULT_DATA, Data
from trimaran.cli.output import Format, say, show_json, show_rows
from trimaran.errors import Exit, UserError
from trimaran.local import control, state_file
from trimaran.local.layout import NODES_MAX, ClusterPlan, plan_cluster
from trimaran.local.state_file import ClusterState

READY_SECONDS_MAX = 60.0


def up(
    *,
    controllers: int = 3,
    brokers: int = 3,
    zk: bool = False,
    data: Data = DEFAULT_DATA,
    ports: str = "auto",
    detach: Annotated[bool, Parameter(name=["-d", "--detach"])] = False,
    override: list[str] | None = None,
    output: Format = "table",
) -> int:
    """Formats and starts a local cluster, or starts the one of the data directory again.

    Args:
        controllers: how many controllers vote.
        brokers: how many brokers serve.
        zk: also start a real ZooKeeper and mirror the metadata into it.
        data: the directory of the cluster.
        ports: `auto` (free ones) or `fixed` (9092, 9093 and 2181, one thousand more a node).
        detach: return when the cluster is ready; it runs on in the background.
        override: key=value settings for every node's properties file.
        output: table or json.
    """
    began = time.perf_counter()
    plan = _plan(data.resolve(), controllers, brokers, zk, ports == "fixed", override or [])
    if detach:
        _supervise_in_background(plan)
        _show_ready(plan.data, began, output)
        return Exit.OK
    from trimaran.local.supervisor import supervise

    supervise(plan, lambda: _show_ready(plan.data, began, output))
    return Exit.OK


def _plan(
    data: Path, controllers: int, brokers: int, zk: bool, fixed_ports: bool, overrides: list[str]
) -> ClusterPlan:
    if (data / state_file.FILE_NAME).exists():
        state = state_file.read(data)
        if state.is_up():
            raise UserError(
                f"the cluster in {data} is already up",
                f"its supervisor runs as process {state.supervisor_pid}",
                "trimaran ps shows it, trimaran down stops it; or choose another --data",
            )
        return state_file.plan_of(data, state)
    if not (1 <= controllers <= NODES_MAX and 0 <= brokers <= NODES_MAX * 10):
        raise UserError(
            f"cannot start {controllers} controllers and {brokers} brokers",
            f"a local cluster has 1 to {NODES_MAX} controllers",
            "trimaran up --controllers 3 --brokers 3",
            exit_code=Exit.USAGE,
        )
    return _new_cluster(data, controllers, brokers, zk, fixed_ports, overrides)


def _new_cluster(
    data: Path, controllers: int, brokers: int, zk: bool, fixed_ports: bool, overrides: list[str]
) -> ClusterPlan:
    from quorum.storage import random_uuid
    from trimaran.local.formatting import format_cluster
    from trimaran.properties import from_overrides

    settings = {key: setting.value for key, setting in from_overrides(overrides).items()}
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make the directory {data}",
            error.strerror or str(error),
            "name another with --data",
            exit_code=Exit.USAGE,
        ) from error
    plan = plan_cluster(
        data,
        random_uuid(),
        controllers=controllers,
        brokers=brokers,
        zookeeper=zk,
        fixed_ports=fixed_ports,
        settings=settings,
    )
    format_cluster(plan)
    return plan


def _supervise_in_background(plan: ClusterPlan) -> None:
    """Forks the supervisor and returns when all nodes are ready; a failure comes back as a UserError."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork() == 0:
        os.close(reader)
        _become_supervisor(plan, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if pipe.read(1) != b"r":
            raise UserError(
                "the cluster did not start",
                f"its supervisor ended; see {plan.data / 'supervisor.log'}",
                "trimaran purge removes what is left, trimaran doctor checks the machine",
            )


def _become_supervisor(plan: ClusterPlan, ready_fd: int) -> None:
    from trimaran.local.children import redirect_output
    from trimaran.local.supervisor import supervise

    code = 1
    try:
        os.setsid()
        redirect_output(plan.data / "supervisor.log")

        def on_ready() -> None:
            os.write(ready_fd, b"r")
            os.close(ready_fd)

        supervise(plan, on_ready)
        code = 0
    except Exception:  # noqa: BLE001 - the last thing this process does is to say why it ends
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _show_ready(data: Path, began: float, output: str) -> None:
    from trimaran.local.readiness import wait_until_brokers_see_each_other

    state = state_file.read(data)
    _complain_about_dead(state)
    wait_until_brokers_see_each_other(state, READY_SECONDS_MAX)
    if output == "json":
        show_json(_as_json(state))
        return
    show_rows(
        [asdict(n) for n in state.nodes],
        "table",
        columns=["role", "id", "address", "dir", "pid", "state"],
    )
    say(f"ready in {time.perf_counter() - began:.1f} s   bootstrap {state.bootstrap}")
    say(
        "next:  trimaran topics create t -p 6 -r 3  |  trimaran quorum status  |  trimaran chaos kill leader"
    )


def _complain_about_dead(state: ClusterState) -> None:
    dead = next((n for n in state.nodes if n.state == "dead"), None)
    if dead is None:
        return
    log = Path(f"{dead.dir}.log")
    raise UserError(
        f"{dead.name} died while starting",
        _last_words(log),
        f"read {log}; trimaran down stops the rest",
    )


def _last_words(log: Path) -> str:
    """What a node said about its end: its error in two of three lines, or its last line."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    if len(lines) >= 3 and lines[-3].startswith("error: "):
        return f"{lines[-3].removeprefix('error: ')}: {lines[-2].strip().removeprefix('why: ')}"
    return lines[-1] if lines else "it wrote nothing"


def _as_json(state: ClusterState) -> dict[str, Any]:
    return {
        "cluster_id": state.cluster_id,
        "bootstrap": state.bootstrap,
        "controller_bootstrap": state.controller_bootstrap,
        "zookeeper": state.zookeeper,
        "nodes": [asdict(node) for node in state.nodes],
    }


def ps(*, data: Data = DEFAULT_DATA, output: Format = "table") -> int:
    """Shows the nodes of the local cluster; exit code 1 when one that should run does not."""
    from trimaran.local.readiness import roles_now

    state = roles_now(state_file.read(data.resolve()))
    if output == "json":
        show_json(_as_json(state))
    else:
        columns = ["role", "id", "address", "dir", "pid", "state"]
        show_rows([asdict(node) for node in state.nodes], "table", columns=columns)
    return Exit.NO if any(node.pid is None for node in state.nodes) else Exit.OK


def down(*, data: Data = DEFAULT_DATA) -> int:
    """Stops the local cluster; its data stays."""
    state = state_file.read(data.resolve())
    if not state.is_up():
        say(f"the cluster in {data} is not running")
        return Exit.OK
    control.ask(state.control, "stop")
    while state.is_up():
        time.sleep(0.02)
    say("stopped")
    return Exit.OK


def purge(
    *, data: Data = DEFAULT_DATA, yes: Annotated[bool, Parameter(name=["-y", "--yes"])] = False
) -> int:
    """Stops the local cluster and deletes its data directory; asks first unless `-y`."""
    path = data.resolve()
    state = state_file.read(path)
    if not yes and input(f"delete {path} and all records in it? [y/N] ").strip().lower() != "y":
        return Exit.NO
    if state.is_up():
        down(data=path)
    shutil.rmtree(path)
    say(f"deleted {path}")
    return Exit.OK
