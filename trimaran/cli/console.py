"""`console`: the web console in front of a cluster."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from node.runtime.ports import HOST
from trimaran.cli.connect import (
    BROKERS,
    ENVIRONMENTS,
    Brokers,
    ControllerBootstrap,
    Zookeeper,
    bootstrap_of,
    controllers_of,
    zookeeper_of,
)
from trimaran.cli.output import say
from trimaran.errors import Exit, UserError
from trimaran.local import state_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from trimaran.console.cluster import Cluster
    from trimaran.local.layout import ClusterPlan, NodePlan

Listen = Annotated[str, Parameter(name="--listen")]
AllowWrites = Annotated[bool, Parameter(name="--allow-writes", negative=())]
Host = Annotated[list[str] | None, Parameter(name="--host", negative=())]


def console(
    *,
    brokers: Brokers = BROKERS,
    controllers: ControllerBootstrap = None,
    zookeeper: Zookeeper = None,
    listen: Listen = "127.0.0.1:8090",
    host: Host = None,
    allow_writes: AllowWrites = False,
) -> int:
    """Serves the web console until Ctrl-C or SIGTERM, in front of any cluster, ours or Apache Kafka's.

    Without --bootstrap-controller there is no metadata log: no elections, events, or states of the past.

    Args:
        zookeeper: the ZooKeeper that a mirror writes to, host:port with an optional chroot.
        listen: HOST:PORT; port 0 takes a free one. Nobody has to log in, so leave it on this machine, or put a proxy
            that asks for a login in front.
        host: a further name that browsers call the console by.
        allow_writes: create and delete topics, alter their configs, elect leaders, reset offsets; each is logged.
    """
    address = _address(listen)
    ensure_installed()
    from trimaran.console.guards import LOCAL_NAMES
    from trimaran.console.start import listen_on, serve_console, text_of
    from trimaran.logs import set_up_console

    set_up_console()
    names = {*LOCAL_NAMES, address[0], *(host or ())}
    cluster = _cluster(brokers, controllers, zookeeper)
    listener = listen_on(address)
    url = f"http://{text_of(listener.getsockname())}/"
    serve_console(
        cluster,
        listener,
        names,
        lambda: say(f"console on {url}; Ctrl-C stops it"),
        allow_writes=allow_writes,
    )
    return Exit.OK


def run_local(plan: ClusterPlan, node: NodePlan, on_ready: Callable[[], None]) -> None:
    """Serves the console of a local cluster, as a node of it."""
    from trimaran.console.cluster import Cluster
    from trimaran.console.guards import LOCAL_NAMES
    from trimaran.console.start import listen_on, serve_console
    from trimaran.logs import set_up_console

    set_up_console()
    cluster = Cluster(
        plan.addresses("broker"),
        plan.addresses("controller"),
        plan.addresses("zookeeper") or None,
        data=plan.data,
    )
    assert node.port is not None, "a console has an address"
    serve_console(cluster, listen_on((HOST, node.port)), LOCAL_NAMES, on_ready)


def ensure_installed() -> None:
    """Raises UserError where the extra `console` is not installed."""
    try:
        import hypercorn
        import jinja2
        import starlette
    except ImportError as error:
        raise UserError(
            "the console is not installed",
            str(error),
            "pip install 'trimaran[console]'",
            exit_code=Exit.USAGE,
        ) from error
    del hypercorn, jinja2, starlette


def _cluster(brokers: Brokers, controllers: str | None, zookeeper: str | None) -> Cluster:
    """Of a cluster that was named itself nothing of the local one is taken."""
    from trimaran.console.cluster import Cluster

    is_local = brokers.bootstrap is None and not any(os.environ.get(name) for name in ENVIRONMENTS)
    bootstrap = bootstrap_of(brokers.bootstrap, brokers.data)
    if is_local:
        with contextlib.suppress(UserError):
            controllers = controllers_of(controllers, brokers.data)
        with contextlib.suppress(UserError):
            zookeeper = zookeeper_of(zookeeper, brokers.data)
    _ensure_addresses(bootstrap, "-b")
    if controllers is not None:
        _ensure_addresses(controllers, "-B")
    data = state_file.nearest(brokers.data) if is_local else None
    return Cluster(bootstrap, controllers, zookeeper, brokers.command_config, data)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UserError(
            f"cannot listen on {text}",
            "it is no address",
            "write HOST:PORT, as --listen 127.0.0.1:8090",
            exit_code=Exit.USAGE,
        )
    return host, int(port)


def _ensure_addresses(text: str, option: str) -> None:
    """What can never be asked is told before a page is."""
    from wire.client.bootstrap import parse_bootstrap

    try:
        parse_bootstrap(text)
    except ValueError as error:
        raise UserError(
            f"{text} is not a list of addresses",
            str(error),
            f"addresses are written {option} HOST:PORT,…",
            exit_code=Exit.USAGE,
        ) from error
