"""Checks of every request: its host name, and headers that protect against abuse through a browser.

A foreign page may resolve its own name to 127.0.0.1 (DNS rebinding): then the Host header has that name, and the
request is refused. Scripts and styles come only from us, so a topic called `<script>` stays a name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from ipaddress import ip_address
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_MISDIRECTED = (
    b"error: this console is not called that\n"
    b"  why: the Host header is none of its names, as when another site points its name here\n"
    b"  fix: use the address that it printed, or start it with --host NAME\n"
)


def host_of(header: str) -> str:
    """Returns the name in a Host header, without port and brackets, in lower case."""
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def is_of_this_machine(host: str) -> bool:
    """Whether only this machine can connect to an address for listening."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """Wraps the application; `names` are its accepted host names."""

    def __init__(self, app: App, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [header for header in self._headers if header[0] not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or host_of(hosts[0].decode("latin-1")) not in self._names:
            await _refuse(send_guarded)
            return
        await self._app(scope, receive, send_guarded)


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 421, "headers": headers})
    await send({"type": "http.response.body", "body": _MISDIRECTED})
