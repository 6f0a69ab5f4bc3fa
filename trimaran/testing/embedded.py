"""One node, controller and broker, in a thread of this process: for tests that need a broker immediately.

Its data is deleted at its end. Until then it is written, but not flushed (`trimaran.log.fsync=none`). It cannot
simulate a crash: see `KafkaCluster`.
"""

from __future__ import annotations

import contextlib
import gc
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Self

import trio

from trimaran.faults.fault_set import FaultSet
from trimaran.faults.in_node import NodeFaults
from trimaran.faults.topic_names import TopicNames
from trimaran.node.config.server import parse
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.settings.properties import PropertySetting
from trimaran.testing.checked_settings import check_settings
from trimaran.testing.faults import FaultyKafka, KafkaFaults
from trimaran.testing.kafka import Kafka
from trimaran.wire.later import imported_later
from trimaran.wire.transport.server.interception import INTERCEPT

if TYPE_CHECKING:
    from trimaran.broker.process.server import RunningBroker
    from trimaran.node.config.server import ServerConfig
    from trimaran.quorum.formatting import storage
    from trimaran.running import combined
else:
    storage = imported_later("trimaran.quorum.formatting.storage")
    combined = imported_later("trimaran.running.combined")

START_SECONDS = 30.0
STOP_SECONDS = 30.0
# One partition for each internal topic, since there is one broker: fewer files and a faster first use.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "trimaran.dev.mode": "true",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}


class EmbeddedKafka(FaultyKafka, Kafka):
    """`with EmbeddedKafka() as kafka:`, or `start` and `stop`; `settings` are keys of server.properties."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """Raises ConfigError for a key that no node knows."""
        check_settings(settings or {})
        self._settings = dict(settings or {})
        self._directory: Path | None = None
        self._node: _Node | None = None
        self._rules = FaultSet(names=TopicNames(self._topic_name))
        self._cluster_id = ""
        self._ports: list[socket.socket] = []
        self.controller_bootstrap = ""

    def start(self) -> Self:
        """Returns when clients are served.

        Raises:
            ConfigError: a setting is wrong.
        """
        assert self._node is None, "it runs already"
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="trimaran-"))
            self._ports = [reserve(), reserve()]
        client_port, controller_port = map(port_of, self._ports)
        try:
            with _collector_paused():
                config = self._config(client_port, controller_port)
                self._node = _Node(config, self._rules)
        except BaseException:
            self.stop()
            raise
        self.bootstrap = f"127.0.0.1:{client_port}"
        self.controller_bootstrap = f"127.0.0.1:{controller_port}"
        return self

    @property
    def faults(self) -> KafkaFaults:
        """Returns the faults of this node; they outlive a restart."""
        return KafkaFaults(self._rules)

    def _topic_name(self, topic_id: bytes) -> str | None:
        return None if self._node is None else self._node.topic_name(topic_id)

    def restart(self) -> None:
        """Stops the node cleanly and starts it again, with its data, at the same address."""
        self._end()
        self.start()

    def stop(self) -> None:
        """Returns when the node has ended and its data is deleted; does nothing if it does not run."""
        self._end()
        for port in self._ports:
            port.close()
        self._ports.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory, self._cluster_id = None, ""

    def diagnosis(self) -> str:
        """Returns whether the node runs, or why it has ended."""
        return (
            f"node 1 at {self.bootstrap}: {'stopped' if self._node is None else self._node.state()}"
        )

    def _end(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            node.stop()

    def _config(self, client_port: int, controller_port: int) -> ServerConfig:
        texts = SETTINGS | {
            "listeners": f"PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(self._directory),
            **self._settings,
        }
        config = parse(
            {key: PropertySetting(value, "EmbeddedKafka") for key, value in texts.items()}
        )
        self._cluster_id = self._cluster_id or storage.random_uuid()
        storage.format_directories(config, self._cluster_id, ignore_formatted=True)
        return config


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Pauses the garbage collector: it would take a tenth of the first start, and find that imported modules stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Node:
    """A thread with its own event loop; it ends with the process at the latest."""

    def __init__(self, config: ServerConfig, rules: FaultSet) -> None:
        self._rules = rules
        self._started: Future[RunningBroker] = Future()
        self._ended: Future[None] = Future()
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(
            target=self._main, args=(config,), name="kafka", daemon=True
        )
        self._thread.start()
        self._started.result(START_SECONDS)

    def stop(self) -> None:
        """Stops the node. Raises the error that ended the node, if it ended before."""
        if self._token is not None and not self._ended.done():
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)
        self._ended.result(STOP_SECONDS)
        self._thread.join()

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of a topic in the newest metadata; None if there is none."""
        if not self._started.done() or self._started.exception() is not None:
            return None
        topic = self._started.result().parts.metadata.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def state(self) -> str:
        """Returns `running`, or how the node ended."""
        if not self._ended.done():
            return "running"
        error = self._ended.exception()
        return "ended" if error is None else f"ended by {type(error).__name__}: {error}"

    def _main(self, config: ServerConfig) -> None:
        listeners = frozenset(listener.name for listener in config.broker_listeners)
        INTERCEPT.set(NodeFaults(self._rules, config["node.id"], listeners).intercept)
        try:
            trio.run(self._run, config)
        except BaseException as error:  # noqa: BLE001 - it is for who waits
            if not self._started.done():
                self._started.set_exception(error)
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _run(self, config: ServerConfig) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._started.set_result(await nursery.start(combined.run_combined, config))
