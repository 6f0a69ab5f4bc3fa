"""A proxy with its control: rules over HTTP in front of any Kafka, or of a local cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from trimaran.fault_control.controlled import ControlledKafka, KafkaAt
from trimaran.fault_control.listening import ControlEndpoint, ReadyControl, open_control
from trimaran.fault_control.started import controlled_cluster
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.proxy import FaultProxy, ProxySettings
from trimaran.faults.proxy_process import open_proxy, wait_for_signal
from trimaran.testing.cluster import RunningCluster
from trimaran.wire.later import imported_later
from trimaran.wire.security.listener import ClientSecurity

if TYPE_CHECKING:
    from trimaran.console import http_server, start
    from trimaran.console.guards import App
    from trimaran.fault_control import serving
else:
    http_server = imported_later("trimaran.console.http_server")
    start = imported_later("trimaran.console.start")
    serving = imported_later("trimaran.fault_control.serving")

# Called when clients are served.
OnReady = Callable[[ReadyControl], object]


def ready_text(upstream: str, ready: ReadyControl) -> str:
    """Returns the lines that say where a proxy and its control serve."""
    return (
        f"proxy at {ready.bootstrap} in front of {upstream}\n"
        f"control at {ready.url}, token in {ready.token_file}"
    )


def serve_proxy(settings: ProxySettings, faults: FaultSet, listen: str, on_ready: OnReady) -> None:
    """Serves a proxy and its control until SIGTERM or Ctrl-C. Raises as `open_control` and `open_proxy` do.

    Topics are created at the upstream, without faults.
    """
    with open_control(listen) as control:
        proxy = open_proxy(settings, faults)
        ready = control.ready(str(proxy.address))
        kafka = KafkaAt(
            ",".join(map(str, settings.upstream)), ClientSecurity(settings.upstream_tls)
        )
        app = serving.application(ControlledKafka(ready.bootstrap, kafka, faults), control.token)
        trio.run(_serve, app, control, proxy, partial(on_ready, ready), wait_for_signal)


def serve_running(
    data: Path, listen: str, on_ready: OnReady, until_closed: int | None = None
) -> None:
    """Serves a proxy in front of the cluster that runs in a data directory, and its control, until SIGTERM or Ctrl-C,
    or until the pipe of which `until_closed` is an end is closed. Raises as `open_control` does.
    """
    stop = wait_for_signal if until_closed is None else partial(_signal_or_end, until_closed)
    with open_control(listen) as control, RunningCluster(data) as kafka:
        app = serving.application(controlled_cluster(kafka), control.token)
        ready = control.ready(kafka.bootstrap)
        trio.run(_serve, app, control, None, partial(on_ready, ready), stop)


async def _signal_or_end(pipe: int) -> None:
    """Waits for a signal, or for the end of a pipe to which nothing is written."""
    async with trio.open_nursery() as nursery:

        async def first(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(first, wait_for_signal)
        nursery.start_soon(first, partial(trio.lowlevel.wait_readable, pipe))


async def _serve(
    app: App,
    control: ControlEndpoint,
    proxy: FaultProxy | None,
    on_ready: Callable[[], object],
    wait_for_stop: Callable[[], Awaitable[None]],
) -> None:
    async with trio.open_nursery() as nursery:
        if proxy is not None:
            nursery.start_soon(proxy.run)
        await http_server.serve_http(app, control.listener, on_ready, wait_for_stop)
        nursery.cancel_scope.cancel()
