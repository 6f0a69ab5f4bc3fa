"""One active controller with its tasks and handlers, without quorum, sockets and disk: its records are committed in the
next turn of the loop, or when the test allows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from tests.broker.calls import finished, started
from tests.quorum.config_of import config_of
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.controller import Controller, ControllerSettings
from trimaran.quorum.controller.handlers.broker_heartbeat import broker_heartbeat
from trimaran.quorum.controller.nodes import liveness
from trimaran.quorum.controller.nodes.liveness import ProbeResult
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.listener import CommittedBatch
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from trimaran.wire.messages.header import RequestHeader
from trimaran.wire.schema import Message
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo
from trimaran.wire.transport.scheduling.events import AutoResetEvent

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
EPOCH = 5


class Log:
    """The node's part: `batches` as they were proposed; `refuses` is raised instead, and `held` delays all commits."""

    def __init__(self) -> None:
        self.metadata_version = 0
        self.log_end_offset = 1000  # above the epochs of test brokers
        self.batches: list[list[Message]] = []
        self.resigned = 0
        self.refuses: Exception | None = None
        self.held = False
        self.proposed = AutoResetEvent()
        self._uncommitted: deque[CommittedBatch] = deque()

    def encode(self, records: Sequence[Message]) -> Iterator[int]:
        for _ in records:
            yield 1
        return b""

    def propose(self, records: Sequence[Message], epoch: int, batch: bytes | None = None) -> int:
        if self.refuses is not None:
            raise self.refuses
        self.batches.append(list(records))
        self._uncommitted.append(self.appended(records, epoch))
        self.proposed.set()
        return self.log_end_offset - 1

    def appended(self, records: Sequence[Message], epoch: int) -> CommittedBatch:
        base = self.log_end_offset
        self.log_end_offset += len(records)
        return CommittedBatch(base, self.log_end_offset - 1, epoch, 1000, 100, list(records))

    def resign(self) -> None:
        self.resigned += 1

    async def commit(self, controller: Controller) -> None:
        """Commits batches; runs as a task."""
        while True:
            await self.proposed.wait()
            while self._uncommitted and not self.held:
                controller.apply_committed(self._uncommitted.popleft())


class Solo:
    """The controller under test. `call` invokes a handler as if the request came from `connection`. The ports in
    `silent` refuse connections.
    """

    def __init__(self, controller: Controller, log: Log) -> None:
        self.controller, self.log = controller, log
        self.context = ControllerContext(
            controller.settings.config,
            CLUSTER_ID,
            log,
            controller,  # type: ignore[arg-type]
        )
        self.connection = self.connect(1)
        self.silent: set[int] = set()

    @staticmethod
    def connect(number: int) -> ConnectionInfo:
        return ConnectionInfo(number, "CONTROLLER", ("127.0.0.1", number), ("127.0.0.1", 9093))

    @property
    def active(self) -> ActiveController:
        return self.controller.active()

    @property
    def image(self) -> MetadataImage:
        """Returns the committed image."""
        return self.controller.loader.image

    def partitions(self, name: str = "t") -> dict[int, Any]:
        return dict(self.image.topics.by_name[name].partitions)

    def begin(self, handler: Callable[..., Any], request: Message, version: int = 0) -> Any:
        """Returns the response of a handler, or `Paused` at its first effect that takes time."""
        header = RequestHeader(request.KEY, version, 1, "client")
        found = handler(request, self.context, Call(header, self.connection))
        return started(found)

    async def call(self, handler: Callable[..., Any], request: Message, version: int = 0) -> Any:
        return await finished(self.begin(handler, request, version))

    def beat_request(
        self, broker_id: int, *, epoch: int | None = None, offset: int = 1 << 40, **wishes: Any
    ) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=100 + broker_id if epoch is None else epoch,
            current_metadata_offset=offset,
            **({"want_fence": False, "want_shut_down": False} | wishes),
        )

    async def beat(self, broker_id: int, **wishes: Any) -> BrokerHeartbeatResponse:
        """Sends a heartbeat of a broker with the epoch that `tests.quorum.metadata.build.broker` gives it."""
        return await self.call(broker_heartbeat, self.beat_request(broker_id, **wishes))

    @property
    def fenced(self) -> list[int]:
        """Returns the ids of fenced brokers in the committed image."""
        return [broker.id for broker in self.image.cluster.brokers.values() if broker.fenced]

    async def probe(self, listeners: Iterable[Endpoint]) -> ProbeResult:
        """Replaces `liveness.probe`."""
        await trio.lowlevel.checkpoint()
        ports = {listener.port for listener in listeners}
        answered, refused = ports - self.silent, ports & self.silent
        return ProbeResult(
            frozenset(("h", port) for port in answered),
            frozenset(("h", port) for port in refused),
            is_down=not answered and bool(refused),
        )

    async def settle(self) -> None:
        """Waits until all tasks are blocked."""
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def solo(*records: Message, **settings: Any) -> AsyncIterator[Solo]:
    """Runs a controller; `records` are committed before it leads. `settings` are the controller's; without them its
    periodic tasks are idle. `config` has keys of the configuration, `silent` ports that refuse connections.
    """
    log = Log()
    silent = settings.pop("silent", set())
    idle = {"idle": 0.0, "balance": 0.0, "unclean": 0.0}
    config = config_of(**settings.pop("config", {}))
    controller = Controller(
        ControllerSettings(CLUSTER_ID, config, (), **(idle | settings)), MetadataLoader()
    )
    controller.node = log
    controller.apply_committed(log.appended(records, 1))
    found = Solo(controller, log)
    found.silent |= silent
    async with trio.open_nursery() as nursery:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(liveness, "probe", found.probe)
            nursery.start_soon(log.commit, controller)
            nursery.start_soon(controller._reachability.run, lambda: controller.loader.image)
            nursery.start_soon(controller.lead, EPOCH)
            await found.settle()
            yield found
            nursery.cancel_scope.cancel()
