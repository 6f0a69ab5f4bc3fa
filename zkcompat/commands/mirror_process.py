"""`run_mirror`: the mirror as a separate process."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import trio

from trimaran.wire.identity import Address
from trimaran.wire.security.listener import ClientSecurity
from trimaran.zkcompat import events
from trimaran.zkcompat.commands.errors import MirrorLockedError, QuorumUnreachableError
from trimaran.zkcompat.commands.session import run_trio
from trimaran.zkcompat.legacy.admin import LegacyAdmin
from trimaran.zkcompat.legacy.controller_client import ControllerClient
from trimaran.zkcompat.mirroring.mirror import Mirror
from trimaran.zkcompat.quorum_feed.observer import find_cluster_id, open_observer, parse_controllers
from trimaran.zkcompat.settings import (
    NONE,
    Properties,
    keeper_config,
    mirror_config,
    obeyed_kinds,
    quorum_security,
)
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session_file import SESSION_FILE

QUORUM_SECONDS = 10.0
FIRST_WORD_SECONDS = 1.0  # a running quorum responds within milliseconds

log = logging.getLogger(__name__)

Beside = Callable[[], AbstractAsyncContextManager[Callable[[Mirror], object]]]


def no_companion() -> AbstractAsyncContextManager[Callable[[Mirror], object]]:
    """Returns the default of `beside`: a context that does nothing."""
    return nullcontext(lambda _: None)


def run_mirror(
    bootstrap_controllers: str,
    zookeeper_connect: str,
    state_dir: Path,
    properties: Properties = NONE,
    beside: Beside = no_companion,
) -> None:
    """Mirrors until SIGTERM or SIGINT. The ZooKeeper session is left to its time-out, so that a restart can resume it.

    `beside` is a context that lasts until the end; its value is called with the mirror once the quorum is found. Raises
    ValueError, MirrorLockedError, QuorumUnreachableError, WrongClusterError or ZooKeeperTooOldError.
    """
    bootstrap = parse_controllers(bootstrap_controllers)
    config = mirror_config(properties)
    zookeeper = keeper_config(zookeeper_connect, properties)
    security = quorum_security(properties)
    kinds = obeyed_kinds(properties)
    state_dir.mkdir(parents=True, exist_ok=True)
    session_file = trio.Path(state_dir / SESSION_FILE)

    async def mirror() -> None:
        async with beside() as found:
            cluster_id = await _forever_cluster_id(bootstrap, security)
            async with (
                open_observer(cluster_id, bootstrap, security) as feed,
                open_keeper(zookeeper, session_file, keep_session=True) as keeper,
            ):
                admin = LegacyAdmin(ControllerClient(feed.leader_address, security), kinds)
                this = Mirror(feed, keeper, cluster_id, config, [admin])
                found(this)
                await this.run()

    with _locked(state_dir):
        run_trio(partial(_until_signal, mirror))


async def _forever_cluster_id(bootstrap: list[Address], security: ClientSecurity) -> str:
    """Returns the cluster id. A mirror may start before its quorum: it logs that immediately and waits."""
    try:
        return await find_cluster_id(bootstrap, FIRST_WORD_SECONDS, security)
    except QuorumUnreachableError as error:
        events.MIRROR_RETRYING.log(log, error=error)
    while True:
        try:
            return await find_cluster_id(bootstrap, QUORUM_SECONDS, security)
        except QuorumUnreachableError:
            continue


async def _until_signal(work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work`; the first SIGTERM or SIGINT cancels it."""
    async with trio.open_nursery() as nursery:

        async def listen() -> None:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

        nursery.start_soon(listen)
        await work()
        nursery.cancel_scope.cancel()


@contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    """Holds the lock of the directory: two processes with one session would replace each other forever."""
    handle = os.open(state_dir / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MirrorLockedError(f"another mirror uses {state_dir}") from None
        yield
    finally:
        os.close(handle)
