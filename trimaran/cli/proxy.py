"""`proxy`: faults on demand in front of any Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trimaran.cli.console import ensure_installed
from trimaran.cli.output import say
from trimaran.errors.user_error import Exit
from trimaran.fault_control import proxied
from trimaran.faults import fault_set, proxy_process, ready_plans
from trimaran.faults import proxy as fault_proxy
from trimaran.running import log_lines
from trimaran.wire.client import bootstrap as client_bootstrap

Upstream = Annotated[str, Parameter(name="--upstream")]
Plan = Annotated[str | None, Parameter(name="--plan")]
Listen = Annotated[str, Parameter(name="--listen")]
Advertise = Annotated[str, Parameter(name="--advertise")]
FixedPorts = Annotated[bool, Parameter(name="--fixed-ports", negative=())]
TlsCert = Annotated[Path | None, Parameter(name="--tls-cert")]
TlsKey = Annotated[Path | None, Parameter(name="--tls-key")]
UpstreamTls = Annotated[bool, Parameter(name="--upstream-tls", negative=())]
Control = Annotated[str, Parameter(name="--control")]
UpstreamFile = Annotated[Path | None, Parameter()]


def proxy(
    *,
    upstream: Upstream,
    plan: Plan = None,
    listen: Listen = "127.0.0.1:19092",
    advertise: Advertise = "",
    fixed_ports: FixedPorts = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    upstream_tls: UpstreamTls = False,
    upstream_ca: UpstreamFile = None,
    upstream_cert: UpstreamFile = None,
    upstream_key: UpstreamFile = None,
    control: Control = "",
) -> int:
    """Serves a proxy in front of any Kafka until Ctrl-C or SIGTERM; it applies the rules of a plan to the requests of
    its clients. At the end it shows the actions that were carried out.

    Args:
        upstream: HOST:PORT,… of brokers.
        plan: A plan in TOML, or the name of a ready plan. Without it the proxy only passes bytes.
        listen: HOST:PORT for bootstrap.servers of clients; port 0 takes a free one.
        advertise: The host name that clients are shown, if it is not that of --listen.
        fixed_ports: Give brokers the ports after that of --listen, in the order in which they are seen.
        tls_cert: Clients speak TLS; this is the certificate, a PEM file.
        tls_key: The key of the certificate, a PEM file; by default it is in the file of the certificate.
        upstream_tls: Brokers speak TLS. A login by SASL passes through in any case.
        upstream_ca: Authorities that are trusted for brokers, a PEM file; by default those of this machine.
        upstream_cert: The certificate of the proxy for brokers, a PEM file.
        upstream_key: Its key, a PEM file; by default it is in the file of the certificate.
        control: Also serve rules over HTTP, at this port or HOST:PORT; port 0 takes a free one. Requests need the
            token of TRIMARAN_CONTROL_TOKEN, or of the file that is named at the start.
    """
    log_lines.set_up_console()
    rules = fault_set.FaultSet()
    if plan is not None:
        rules.add_plan(ready_plans.find_plan(plan))
    with_tls = upstream_tls or upstream_ca is not None or upstream_cert is not None
    settings = fault_proxy.ProxySettings(
        client_bootstrap.parse_bootstrap(upstream),
        proxy_process.listen_address(listen),
        advertise,
        fixed_ports,
        None if tls_cert is None else proxy_process.listening_tls(tls_cert, tls_key),
        proxy_process.upstream_tls(upstream_ca, upstream_cert, upstream_key) if with_tls else None,
    )
    if control:
        ensure_installed()
        proxied.serve_proxy(
            settings, rules, control, lambda ready: say(proxied.ready_text(upstream, ready))
        )
    else:
        proxy_process.serve_proxy(
            settings, rules, lambda at: say(f"proxy at {at} in front of {upstream}")
        )
    for line in rules.trace.lines:
        say(line)
    for name in rules.unmatched():
        say(f"rule {name} matched no request")
    return Exit.OK
