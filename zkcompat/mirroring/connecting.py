"""Waits for a ZooKeeper session, and logs the reason if that takes long."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

import trio

from trimaran.wire.identity import Address
from trimaran.zkcompat import events
from trimaran.zkcompat.mirroring.status import MirrorStatus
from trimaran.zkcompat.zookeeper.keeper import Keeper

log = logging.getLogger(__name__)

# A wait that is longer is logged; normally it takes milliseconds.
PATIENCE_SECONDS = 1.0
# The interval at which servers are polled for their state meanwhile, and the time limit of each response.
ASK_SECONDS = 0.5
ANSWER_SECONDS = 1.0
REFUSED_SECONDS = 5.0  # An operator has to change a password before a retry can succeed.
WORD_BYTES_MAX = 1 << 14
TLS_REMEDY = (
    "it must show a valid certificate of an authority in zookeeper.ssl.truststore.location, and may want one of ours: "
    "zookeeper.ssl.keystore.location"
)
_ZXID = re.compile(rb"^Zxid: 0x([0-9a-f]{1,16})$", re.MULTILINE)
_READ_ONLY = re.compile(rb"^Mode: read-only$", re.MULTILINE)
DEFAULT_PORT = 2181


@dataclass(slots=True)
class Connecting:
    """One wait for a session."""

    keeper: Keeper
    status: MirrorStatus

    async def wait(self) -> None:
        """Returns when there is a session: a new one if the servers have lost the last one."""
        self.status.tell("connecting")
        if await self.keeper.wait_connected(PATIENCE_SECONDS):
            return
        config = self.keeper.config
        seen = await _ask_all(config.connect, config.security.tls is not None)
        how = "serves, and has not let us in yet" if seen.zxids else "does not answer"
        events.MIRROR_LOST_ZOOKEEPER.log(log, connect=config.connect, reason=how)
        told, reads_only = "", False
        started = trio.current_time()
        resume = self.keeper.saved
        while not await self.keeper.wait_connected(ASK_SECONDS):
            if self.keeper.tls_problem not in ("", told):
                told = self.keeper.tls_problem
                events.MIRROR_TLS_FAILED.log(
                    log, connect=config.connect, error=told, remedy=TLS_REMEDY
                )
            if self.keeper.is_refused:
                events.MIRROR_LOGIN_REFUSED.log(
                    log, connect=config.connect, seconds=REFUSED_SECONDS
                )
                await trio.sleep(REFUSED_SECONDS)
                await self.keeper.close()
                self.keeper.connect(resume)
                continue
            seen = await _ask_all(config.connect, config.security.tls is not None)
            if seen.reads_only and not reads_only:
                events.MIRROR_ZOOKEEPER_READS_ONLY.log(log, connect=config.connect)
            reads_only = seen.reads_only
            long = trio.current_time() - started > 2 * config.session_timeout_ms / 1000
            if seen.zxids and (long or max(seen.zxids) < self.keeper.last_zxid):
                # Its data was wiped or restored, or a response was false: the client's last zxid is in the future, and
                # every server refuses it. A new client has none; a session that still exists is kept.
                events.MIRROR_CONNECTION_TURNED_AWAY.log(log)
                await self.keeper.close()
                self.keeper.connect(resume)
                started = trio.current_time()


def _servers(connect: str) -> Iterator[Address]:
    for address in connect.partition("/")[0].split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon:
            host, port = port, str(DEFAULT_PORT)
        if port.isdecimal():
            yield Address(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True)
class _Seen:
    """The states of servers. `zxids` has the newest transaction of each serving server; a number beyond all zxids if it
    does not report one. `reads_only`: no server serves, and one is read-only.
    """

    zxids: list[int]
    reads_only: bool


async def _ask_all(connect: str, tls_only: bool) -> _Seen:
    found: list[int] = []
    reads_only = False
    for host, port in _servers(connect):
        answer = None
        with trio.move_on_after(ANSWER_SECONDS):
            answer = await _ask(host, port, b"" if tls_only else b"srvr")
        if answer is None:
            continue
        zxid = _ZXID.search(answer)
        if _READ_ONLY.search(answer) is not None:
            reads_only = True
        elif zxid is not None:
            found.append(int(zxid[1], 16))
        elif b"not currently serving" not in answer:
            found.append(1 << 64)  # The server serves, but does not report a zxid.
    return _Seen(found, reads_only and not found)


async def _ask(host: str, port: int, word: bytes) -> bytes | None:
    try:
        stream = await trio.open_tcp_stream(host, port)
        async with stream:
            if not word:
                return b""
            await stream.send_all(word)
            answer = b""
            while len(answer) < WORD_BYTES_MAX and (more := await stream.receive_some(4096)):
                answer += more
            return answer
    except (OSError, trio.BrokenResourceError):
        return None
