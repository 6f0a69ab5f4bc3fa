"""`console`: the web console for a cluster."""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import (
    BROKERS,
    ENVIRONMENTS,
    Brokers,
    ControllerBootstrap,
    Zookeeper,
    controllers_of,
    zookeeper_of,
)
from trimaran.cli.output import say
from trimaran.cli.value_schemas import SCHEMAS, Schemas
from trimaran.console import cluster as console_cluster
from trimaran.console import guards, start
from trimaran.console import login as console_login
from trimaran.errors.user_error import Exit, UserError
from trimaran.local import state_file
from trimaran.node.runtime import ports
from trimaran.running import log_lines
from trimaran.wire import identity
from trimaran.wire.client import bootstrap as client_bootstrap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trimaran.local.layout import ClusterPlan, NodePlan

Listen = Annotated[str, Parameter(name="--listen")]
AllowWrites = Annotated[bool, Parameter(name="--allow-writes", negative=())]
Host = Annotated[list[str] | None, Parameter(name="--host", negative=())]
Metrics = Annotated[list[str] | None, Parameter(name="--metrics", negative=())]
PasswordFile = Annotated[Path | None, Parameter(name="--password-file")]
TlsCert = Annotated[Path | None, Parameter(name="--tls-cert")]
TlsKey = Annotated[Path | None, Parameter(name="--tls-key")]
PASSWORD_VARIABLE = "TRIMARAN_CONSOLE_PASSWORD"


def console(
    *,
    brokers: Brokers = BROKERS,
    controllers: ControllerBootstrap = None,
    zookeeper: Zookeeper = None,
    metrics: Metrics = None,
    listen: Listen = "127.0.0.1:8090",
    host: Host = None,
    allow_writes: AllowWrites = False,
    password_file: PasswordFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    schemas: Schemas = SCHEMAS,
) -> int:
    """Serves the web console until Ctrl-C or SIGTERM, for any cluster, ours or Apache Kafka's.

    Without --bootstrap-controller the console has no metadata log, so it shows no elections, events or past states.
    With --registry it shows keys and values decoded, if they begin with the id of a schema.

    Args:
        metrics: HOST:PORT of the metrics of a node, for charts: its trimaran.metrics.listener or JMX exporter. Repeat
            it for each node.
        listen: HOST:PORT to listen on; port 0 takes a free one. Outside this machine a password is required, and TLS
            recommended.
        host: Another host name at which browsers reach the console.
        allow_writes: Allow changes: create, alter and delete topics, delete records, elect leaders, reset offsets. Each
            change is logged.
        password_file: A file whose first line is the password for browsers; by default it is taken from
            TRIMARAN_CONSOLE_PASSWORD. Programs send it as Authorization: Bearer.
        tls_cert: Serve HTTPS with this certificate, a PEM file.
        tls_key: The key of the certificate, a PEM file; by default it is in the file of the certificate.
    """
    address = _address(listen)
    ensure_installed()
    log_lines.set_up_console()
    tls = start.checked_tls(tls_cert, tls_key) if tls_cert is not None else None
    password = _password(password_file)
    _ensure_guarded(address[0], is_guarded=bool(password), is_secure=tls is not None)
    cluster = _cluster(brokers, controllers, zookeeper, metrics, schemas)
    listener = start.listen_on(address)
    told = identity.Address(*listener.getsockname()[:2])
    url = f"{'http' if tls is None else 'https'}://{told}/"
    start.serve_console(
        cluster,
        listener,
        {*guards.LOCAL_NAMES, address[0], *(host or ())},
        lambda: say(f"console on {url}; Ctrl-C stops it"),
        allow_writes=allow_writes,
        login=_login(password, told[1], is_secure=tls is not None),
        tls=tls,
    )
    return Exit.OK


def _login(password: str, port: int, *, is_secure: bool) -> console_login.ConsoleLogin:
    """Returns the login. Cookies belong to a host, not to a port, so their names contain the port: consoles on one host
    do not overwrite each other's.
    """
    return console_login.ConsoleLogin(password, f"trimaran-console-{port}", is_secure)


def _password(file: Path | None) -> str:
    """Returns the password, empty if none is required. Raises UserError."""
    if file is None:
        found = os.environ.get(PASSWORD_VARIABLE, "")
        return console_login.checked_password(found, PASSWORD_VARIABLE) if found else ""
    try:
        lines = file.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot read the password in {file}",
            getattr(error, "strerror", None) or str(error),
            "name a readable file whose first line is the password",
            exit_code=Exit.USAGE,
        ) from error
    return console_login.checked_password(lines[0].strip() if lines else "", str(file))


def _ensure_guarded(host: str, *, is_guarded: bool, is_secure: bool) -> None:
    """Checks that there is a password if other machines can connect. Raises UserError."""
    if guards.is_of_this_machine(host):
        return
    if not is_guarded:
        raise UserError(
            f"the console would be open to all clients on {host}",
            "other machines can reach that address, and the console has no password",
            f"set a password with --password-file FILE or {PASSWORD_VARIABLE}, or listen on 127.0.0.1",
            exit_code=Exit.USAGE,
        )
    if not is_secure:
        say(
            "warning: without --tls-cert the password is sent in plain text;"
            " do so only behind a proxy that serves TLS"
        )


def run_local(plan: ClusterPlan, node: NodePlan, on_ready: Callable[[], None]) -> None:
    """Serves the console of a local cluster, as one of its nodes."""
    log_lines.set_up_console()
    cluster = console_cluster.ConsoleCluster(
        plan.addresses("broker"),
        plan.addresses("controller"),
        plan.addresses("zookeeper") or None,
        data=plan.data,
        metrics=_metrics_of(plan.data),
    )
    assert node.port is not None, "a console has an address"
    login = _login(_password(None), node.port, is_secure=False)
    start.serve_console(
        cluster,
        start.listen_on(identity.Address(ports.HOST, node.port)),
        guards.LOCAL_NAMES,
        on_ready,
        login=login,
    )


def ensure_installed() -> None:
    """Raises UserError if the extra `console` is not installed."""
    try:
        for name in ("hypercorn", "jinja2", "starlette"):
            import_module(name)
    except ImportError as error:
        raise UserError(
            "the console is not installed",
            str(error),
            "pip install 'trimaran[console]'",
            exit_code=Exit.USAGE,
        ) from error


def _cluster(
    brokers: Brokers,
    controllers: str | None,
    zookeeper: str | None,
    metrics: list[str] | None,
    schemas: Schemas,
) -> console_cluster.ConsoleCluster:
    """Returns the cluster; if one was named, no address of the local cluster is used."""
    is_named = brokers.bootstrap or brokers.profile or any(map(os.environ.get, ENVIRONMENTS))
    bootstrap = brokers.addresses
    if not is_named or brokers.profile:
        with contextlib.suppress(UserError):
            controllers = controllers_of(controllers, brokers.data, brokers.profile)
    if not is_named:
        with contextlib.suppress(UserError):
            zookeeper = zookeeper_of(zookeeper, brokers.data)
    _ensure_addresses(bootstrap, "-b")
    if controllers is not None:
        _ensure_addresses(controllers, "-B")
    for metric in metrics or ():
        _ensure_addresses(metric, "--metrics")
    data = None if is_named else state_file.nearest(brokers.data)
    return console_cluster.ConsoleCluster(
        bootstrap,
        controllers,
        zookeeper,
        settings=brokers.settings(),
        command_config=brokers.command_config,
        data=data,
        metrics=_metrics_of(data)
        if metrics is None
        else lambda: {metric: metric for metric in metrics},
        codecs=schemas.codecs_of_console,
    )


def _metrics_of(data: Path | None) -> Callable[[], Mapping[str, str]]:
    """Returns a function that reads the addresses of metrics of a local cluster's nodes each time."""

    def found() -> Mapping[str, str]:
        if data is None:
            return {}
        with contextlib.suppress(UserError):
            nodes = state_file.read(data).nodes
            return {node.name: node.metrics for node in nodes if node.metrics != "-"}
        return {}

    return found


def _address(text: str) -> identity.Address:
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UserError(
            f"cannot listen on {text}",
            "it is not an address",
            "write HOST:PORT, as --listen 127.0.0.1:8090",
            exit_code=Exit.USAGE,
        )
    return identity.Address(host, int(port))


def _ensure_addresses(text: str, option: str) -> None:
    """Raises UserError for an unusable address before a page is served."""
    try:
        client_bootstrap.parse_bootstrap(text)
    except ValueError as error:
        raise UserError(
            f"{text} is not a list of addresses",
            str(error),
            f"addresses are written {option} HOST:PORT,…",
            exit_code=Exit.USAGE,
        ) from error
