"""`/metrics`, `/healthz` and `/readyz` of one node, at `trimaran.metrics.listener`.

/healthz returns 200 while the event loop runs, even during the node's start. /readyz returns 503 with the missing
conditions until the node is ready. There is no authentication: the pages show names of topics, groups and listeners,
but no secrets and no records.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit

import trio
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from trimaran.metrics import events
from trimaran.metrics.families import Families
from trimaran.metrics.http import CONNECTIONS_MAX, HttpRequest, HttpResponse, serve_http
from trimaran.metrics.process import process_metrics
from trimaran.node.config.config_def import ConfigError
from trimaran.node.runtime.threads import run_computing
from trimaran.wire.identity import Address
from trimaran.wire.transport.scheduling.events import yield_to_loop

log = logging.getLogger(__name__)

# The query parameter that selects metrics by name, as in every exporter of Prometheus' client libraries.
NAMES = "name[]"
# Suffixes of a sample's name after the name of its family.
_ENDS = (
    "",
    "_total",
    "_count",
    "_sum",
    "_bucket",
)


class Text(NamedTuple):
    content_type: str
    body: bytes


class _Collected(Collector):
    """Collected families in the form of a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def restricted(families: Iterable[Metric], names: frozenset[str]) -> Iterable[Metric]:
    """Returns the families that have a sample with one of the names; all families if no names are given."""
    if not names:
        return families
    return [family for family in families if any(f"{family.name}{end}" in names for end in _ENDS)]


def text_of(families: Iterable[Metric], accept: str) -> Text:
    """Returns Prometheus' text format, or OpenMetrics if the Accept header `accept` prefers it. Runs in a thread, since
    it takes about 10 µs per sample.
    """
    encode, content_type = choose_encoder(accept)
    return Text(content_type, encode(_Collected(families)))


# The maximum number of concurrent scrapes; further ones are refused, so that half of the connections are left for
# probes.
SCRAPES_MAX = CONNECTIONS_MAX // 2
_TOO_MANY = b"%d scrapes wait already: read /metrics less often\n" % SCRAPES_MAX

KEY = "trimaran.metrics.listener"

_PATHS = b"try /metrics, /healthz or /readyz\n"
# The fastest level already reduces the size to a tenth.
_GZIP_LEVEL = 1


def address_of(text: str | None) -> Address | None:
    """Returns the address to listen on, None if it is not set. Raises ConfigError."""
    if not text:
        return None
    with suppress(ValueError):
        parts = urlsplit(f"//{text}")
        if parts.hostname and parts.port is not None and parts.netloc == text:
            return Address(parts.hostname, parts.port)
    raise ConfigError(KEY, text, "it is not an address", fix="write HOST:PORT, as 127.0.0.1:9404")


@asynccontextmanager
async def serving_metrics(address: Address, monitor: Monitor) -> AsyncIterator[MetricsServer]:
    """Serves within the block. Raises OSError: the address (its `filename`) is in use, or not an address of this
    machine.
    """
    host, port = address
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(address)) from error
    server = MetricsServer(monitor, Address(*listeners[0].socket.getsockname()[:2]))
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(serve_http, listener, server.respond)
        events.METRICS_SERVED.log(log, host=server.address.host, port=server.address.port)
        yield server
        nursery.cancel_scope.cancel()


class Monitor(Protocol):
    """Provides metrics and readiness of a process."""

    def families(self) -> Families:
        """Yields all metrics at this moment; called on the event loop."""

    def why_not_ready(self) -> list[str]:
        """Returns the missing conditions, a sentence each."""


class MetricsServer:
    """The metrics server of one process, which listens at `address`."""

    def __init__(self, monitor: Monitor, address: Address) -> None:
        self.address = address
        self._monitor = monitor
        # Two concurrent scrapes would cost the loop twice as much and return the same values.
        self._scraping = trio.Lock()
        self._scrapes = 0

    async def respond(self, request: HttpRequest) -> HttpResponse:
        match request.path:
            case "/metrics":
                return await self._metrics(request)
            case "/healthz":
                return HttpResponse(200, b"ok\n")
            case "/readyz":
                missing = self._monitor.why_not_ready()
                text = "".join(f"{reason}\n" for reason in missing) or "ready\n"
                return HttpResponse(503 if missing else 200, text.encode())
            case _:
                return HttpResponse(404, _PATHS)

    async def _metrics(self, request: HttpRequest) -> HttpResponse:
        if self._scrapes == SCRAPES_MAX:
            return HttpResponse(503, _TOO_MANY, headers=[("Retry-After", "1")])
        self._scrapes += 1
        try:
            return await self._scraped(request)
        finally:
            self._scrapes -= 1

    async def _scraped(self, request: HttpRequest) -> HttpResponse:
        zips = "gzip" in request.headers.get("accept-encoding", "")
        wanted = frozenset(parse_qs(request.query).get(NAMES, ()))
        async with self._scraping:
            families = await _collected(self._monitor.families())
            make = partial(_text, families, request.headers.get("accept", ""), wanted, zips=zips)
            text = await run_computing(make)
        encoding = [("Content-Encoding", "gzip")] if zips else []
        return HttpResponse(200, text.body, text.content_type, encoding)


async def _collected(families: Families) -> list[Metric]:
    """Collects the families, a few in each turn of the loop."""
    found = []
    for family in families:
        if family is None:
            await yield_to_loop()
        else:
            found.append(family)
    return found


def _text(families: Sequence[Metric], accept: str, wanted: frozenset[str], *, zips: bool) -> Text:
    text = text_of(restricted([*families, *process_metrics()], wanted), accept)
    return text._replace(body=gzip.compress(text.body, _GZIP_LEVEL)) if zips else text
