"""The proxy as a process: TLS contexts from files, and serving until a signal."""

from __future__ import annotations

import signal
import ssl
from collections.abc import Callable
from pathlib import Path

import trio

from trimaran.errors.user_error import Exit, UserError
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.proxy import FaultProxy, ProxyLoop, ProxySettings
from trimaran.wire.identity import Address
from trimaran.wire.security.tls.contexts import (
    TlsError,
    TlsSettings,
    client_context,
    server_context,
)


def listen_address(text: str) -> Address:
    """Returns an address to listen on; port 0 means any. Raises UserError: the text is not HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise UserError(
            f"cannot listen on {text!r}",
            "it is not HOST:PORT",
            "write for example 127.0.0.1:19092",
            exit_code=Exit.USAGE,
        )
    return Address(host.strip("[]"), int(port))


def listening_tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Returns the context for clients of the proxy. Raises UserError: a file is unusable."""
    chain, private = _text(certificate), _text(key or certificate)
    return _made(
        lambda: server_context(
            TlsSettings(keystore_type="PEM", keystore_chain=chain, keystore_key=private)
        )
    )


def upstream_tls(
    authorities: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext:
    """Returns the context for brokers; without `authorities` those of the machine are trusted. Raises UserError."""
    settings = TlsSettings(
        truststore_type="PEM",
        truststore_certificates=None if authorities is None else _text(authorities),
        keystore_type="PEM",
        keystore_chain=None if certificate is None else _text(certificate),
        keystore_key=None if certificate is None else _text(key or certificate),
    )
    return _made(lambda: client_context(settings))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot read {path}",
            getattr(error, "strerror", None) or str(error),
            "name a readable PEM file",
            exit_code=Exit.USAGE,
        ) from error


def _made(make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    try:
        return make()
    except TlsError as error:
        raise UserError("cannot use TLS", error.why, error.fix, exit_code=Exit.USAGE) from error


def open_proxy(settings: ProxySettings, faults: FaultSet) -> FaultProxy:
    """Returns a proxy that listens. Raises UserError: it would be its own upstream. OSError: the port is taken."""
    try:
        return FaultProxy(settings, faults).open()
    except ProxyLoop as error:
        raise UserError(
            "the proxy would be its own upstream",
            str(error),
            "give --upstream the address of a broker, or another --listen",
            exit_code=Exit.USAGE,
        ) from error


def serve_proxy(
    settings: ProxySettings, faults: FaultSet, on_ready: Callable[[Address], object]
) -> None:
    """Serves until SIGTERM or Ctrl-C. Raises as `open_proxy` does."""
    proxy = open_proxy(settings, faults)
    on_ready(proxy.address)
    trio.run(_serve, proxy)


async def _serve(proxy: FaultProxy) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(proxy.run)
        await wait_for_signal()
        nursery.cancel_scope.cancel()


async def wait_for_signal() -> None:
    """Waits for SIGTERM or Ctrl-C."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            return
