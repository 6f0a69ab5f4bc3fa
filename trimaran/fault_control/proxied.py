"""A proxy with its control: rules over HTTP in front of a Kafka of others, or of a local cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from trimaran.fault_control.controlled import ControlledKafka, KafkaAt
from trimaran.fault_control.listening import ControlEndpoint, open_control
from trimaran.fault_control.started import controlled_cluster
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.proxy import FaultProxy, ProxySettings
from trimaran.faults.proxy_process import open_proxy, wait_for_signal
from trimaran.testing.cluster import RunningCluster
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.console import http_server, start
    from trimaran.console.guards import App
    from trimaran.fault_control import serving
else:
    http_server = imported_later("trimaran.console.http_server")
    start = imported_later("trimaran.console.start")
    serving = imported_later("trimaran.fault_control.serving")

# Called when clients are served, with the address for them and the control.
OnReady = Callable[[str, ControlEndpoint], object]


def ready_text(upstream: str, address: str, control: ControlEndpoint) -> str:
    """Returns the lines that say where a proxy and its control serve."""
    return (
        f"proxy at {address} in front of {upstream}\n"
        f"control at {control.url}, token in {control.token_file}"
    )


def serve_proxy(settings: ProxySettings, faults: FaultSet, listen: str, on_ready: OnReady) -> None:
    """Serves a proxy and its control until SIGTERM or Ctrl-C. Raises as `open_control` and `open_proxy` do.

    Topics are created at the upstream, without faults, unless it speaks TLS: then through the proxy.
    """
    with open_control(listen) as control:
        proxy = open_proxy(settings, faults)
        shown = start.text_of(proxy.address)
        upstream = ",".join(map(start.text_of, settings.upstream))
        kafka = KafkaAt(upstream if settings.upstream_tls is None else shown)
        app = serving.application(ControlledKafka(shown, kafka, faults), control.token)
        trio.run(_serve, app, control, proxy, lambda: on_ready(shown, control))


def serve_running(data: Path, listen: str, on_ready: OnReady) -> None:
    """Serves a proxy in front of the cluster that runs in a data directory, and its control, until SIGTERM or Ctrl-C.
    Raises as `open_control` does.
    """
    with open_control(listen) as control, RunningCluster(data) as kafka:
        app = serving.application(controlled_cluster(kafka), control.token)
        trio.run(_serve, app, control, None, lambda: on_ready(kafka.bootstrap, control))


async def _serve(
    app: App, control: ControlEndpoint, proxy: FaultProxy | None, on_ready: Callable[[], object]
) -> None:
    async with trio.open_nursery() as nursery:
        if proxy is not None:
            nursery.start_soon(proxy.run)
        await http_server.serve_http(app, control.listener, on_ready, wait_for_signal)
        nursery.cancel_scope.cancel()
