"""A proxy with faults in a thread of this process, in front of a cluster of other processes."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import trio

from trimaran.faults.fault_set import FaultSet
from trimaran.faults.proxy import FaultProxy, ProxySettings

STOP_SECONDS = 30.0


class ProxyThread:
    """Runs a `FaultProxy` until `stop`; `bootstrap` is the value for `bootstrap.servers` of clients."""

    def __init__(self, settings: ProxySettings, faults: FaultSet) -> None:
        self._proxy = FaultProxy(settings, faults).open()
        self._scope = trio.CancelScope()
        self._started: Future[trio.lowlevel.TrioToken] = Future()
        self._thread = threading.Thread(target=self._main, name="proxy", daemon=True)
        self._thread.start()
        self._token = self._started.result(STOP_SECONDS)
        self.bootstrap = str(self._proxy.address)

    def stop(self) -> None:
        """Returns when the proxy has ended, and its connections with it."""
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(STOP_SECONDS)

    def _main(self) -> None:
        trio.run(self._run)

    async def _run(self) -> None:
        self._started.set_result(trio.lowlevel.current_trio_token())
        with self._scope:
            await self._proxy.run()
