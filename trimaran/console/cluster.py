"""The cluster of the console, queried from worker threads; responses that many pages need are cached briefly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trimaran.client.connect import NO_SETTINGS, connected
from trimaran.client.partitions import topics_of
from trimaran.client.record_values import AS_BYTES, Codecs
from trimaran.console.analyses import Analyses
from trimaran.console.metadata_log import MetadataHistory
from trimaran.console.rates import TopicRates
from trimaran.console.samples import Samples
from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from trimaran.settings.properties import PropertySetting
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.metadata import MetadataResponseTopic

T = TypeVar("T")
# A person waits for a page; commands have 20 s.
RESPONSE_SECONDS = 5.0
# The greatest age of a response that several pages or tabs share: a query of 10,000 topics costs a tenth of a second.
FRESH_SECONDS = 1.0


@dataclass(slots=True)
class CachedResponse(Generic[T]):
    """A response that is fetched at most once in `FRESH_SECONDS`; concurrent callers wait for the same one."""

    ask: Callable[[], T]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asked_at: float = float("-inf")
    _answer: T | None = None

    def get(self) -> T:
        """Returns the response; raises the exceptions of `ask`."""
        with self._lock:
            if self._answer is None or time.monotonic() - self._asked_at > FRESH_SECONDS:
                self._answer = self.ask()
                self._asked_at = time.monotonic()
            return self._answer

    def forget(self) -> None:
        """Drops the cached response after a write, so that the next reader sees the change."""
        with self._lock:
            self._answer = None


class ConsoleCluster:
    """The cluster of the console. `controllers` and `zookeeper` are None if they were not named: pages that need them
    say so.

    `settings` are client keys for brokers and controllers; `command_config` is the file with the keys for ZooKeeper.
    `data` is the directory of a local cluster. `metrics` returns the addresses of metrics by the name of their node.
    `codecs` decode keys and values.
    """

    def __init__(
        self,
        bootstrap: str,
        controllers: str | None = None,
        zookeeper: str | None = None,
        *,
        settings: Mapping[str, PropertySetting] = NO_SETTINGS,
        command_config: Path | None = None,
        data: Path | None = None,
        metrics: Callable[[], Mapping[str, str]] = dict,
        codecs: Codecs = AS_BYTES,
    ) -> None:
        self.bootstrap = bootstrap
        self.controllers = controllers
        self.zookeeper = zookeeper
        self.settings = settings
        self.command_config = command_config
        self.data = data
        self.log = MetadataHistory(self.controller_client, controllers or "")
        self.metrics = metrics
        self.codecs = codecs
        self.samples = Samples(metrics)
        self.analyses = Analyses(data)
        self.rates = TopicRates()
        self._topics = CachedResponse(self._ask_topics)

    def client(self) -> AbstractContextManager[BlockingClient]:
        """Yields a client of the brokers; its errors are UserErrors."""
        return connected(self.bootstrap, settings=self.settings, timeout=RESPONSE_SECONDS)

    def controller_client(self) -> AbstractContextManager[BlockingClient]:
        """Yields a client of the controllers. Raises UserError if none were named."""
        if self.controllers is None:
            raise no_controllers()
        return connected(
            self.controllers,
            of_controllers=True,
            settings=self.settings,
            timeout=RESPONSE_SECONDS,
        )

    def topics(self) -> Sequence[MetadataResponseTopic]:
        """Returns all topics that the console may see."""
        return self._topics.get()

    def forget(self) -> None:
        """Drops the cached responses after a write."""
        self._topics.forget()
        self.log.forget()

    def _ask_topics(self) -> Sequence[MetadataResponseTopic]:
        with self.client() as client:
            return topics_of(client, None)

    def as_json(self) -> dict[str, Any]:
        return {
            "bootstrap": self.bootstrap,
            "controllers": self.controllers,
            "zookeeper": self.zookeeper,
        }


class NotNamed(UserError):
    """The console does not have an address that this page needs."""


def no_controllers() -> NotNamed:
    return NotNamed(
        "this page reads the metadata log, and no controllers were named",
        "brokers do not give the log to clients; controllers do, ours and Apache Kafka's",
        "start the console with -B HOST:PORT of the controllers",
        exit_code=Exit.USAGE,
    )


def no_zookeeper() -> NotNamed:
    return NotNamed(
        "this page compares ZooKeeper with the metadata, and no ZooKeeper was named",
        "a cluster has one only beside trimaran's mirror",
        "start the console with -z HOST:PORT and -B HOST:PORT",
        exit_code=Exit.USAGE,
    )
