"""All share partitions of the partitions that this broker leads: creates them, ends their locks, and runs their tasks.

Source: `SharePartitionManager` and `SharePartitionCache` of Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Self

import trio

from trimaran.broker.coordination.timers import Timers
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.share_state.states import ShareStates
from trimaran.broker.sharing.acknowledging import DeadLetters
from trimaran.broker.sharing.counts import ShareCounts
from trimaran.broker.sharing.dead_letter_queues import DeadLetterQueues
from trimaran.broker.sharing.feature import has_share_groups
from trimaran.broker.sharing.led_share import LedShare
from trimaran.broker.sharing.sessions import ShareSession, ShareSessions
from trimaran.broker.sharing.settings import Sharing, SharingSettings
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import ConfigsImage, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.transport.scheduling.events import AutoResetEvent

# The maximum number of runs of records in flight in all share partitions, about 200 bytes each: 200 MB. A group needs
# one for each batch that it has not acknowledged; single records need one each. At the limit only free records are
# acquired.
RUNS_IN_FLIGHT_MAX = 1_000_000


class SharePartitions:
    """The share partitions by group; `run` must be running before requests arrive.

    They are bounded by the partitions of share sessions: the share partitions of a group end with its last session.
    """

    def __init__(
        self,
        states: ShareStates,
        settings: SharingSettings,
        sessions: ShareSessions,
        now: Callable[[], float],
        now_ms: Callable[[], int],
        queues: DeadLetterQueues,
        counts: ShareCounts,
    ) -> None:
        self.states = states
        self.counts = counts
        self._queues = queues
        self.sessions = sessions
        self._settings = settings
        self.now = now
        self.now_ms = now_ms
        self._groups: dict[str, dict[SharePartitionKey, LedShare]] = {}
        self._timers: Timers[LedShare] = Timers()
        self._timer_changed = AutoResetEvent()
        self._nursery: trio.Nursery | None = None
        self._runs = 0
        # The share partitions that were open when share groups were disabled, and that have not been retired yet.
        self._to_retire: dict[LedShare, None] = {}

    @classmethod
    def of(
        cls,
        config: ServerConfig,
        configs: Callable[[], ConfigsImage],
        states: ShareStates,
        now: Callable[[], float],
        now_ms: Callable[[], int],
        queues: DeadLetterQueues,
        counts: ShareCounts,
    ) -> Self:
        """Returns the share partitions of a broker with this configuration."""
        sessions = ShareSessions(config["group.share.max.share.sessions"])
        return cls(states, SharingSettings(config, configs), sessions, now, now_ms, queues, counts)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __iter__(self) -> Iterator[LedShare]:
        for group in list(self._groups.values()):
            yield from list(group.values())

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await self._end_locks()
            finally:
                self._nursery = None

    async def _end_locks(self) -> None:
        while True:
            while (due := self._timers.pop_due(self.now())) is not None:
                due.end_locks()
                # All locks of a node may end at the same time.
                await trio.lowlevel.checkpoint()
            earliest = self._timers.earliest()
            delay = inf if earliest is None else earliest - self.now()
            await self._timer_changed.wait(trio.current_time() + delay)

    # -- share partitions

    def find(self, key: SharePartitionKey) -> LedShare | None:
        """Returns the share partition if a member has fetched from it."""
        return self._groups.get(key.group_id, {}).get(key)

    def open(self, key: SharePartitionKey, leader: PartitionLeader) -> LedShare:
        """Returns the share partition in the epoch of `leader`, and begins to load it if it is new. One that retires is
        not continued: the state that it has loaded may be that of a deleted group of this name.
        """
        share, before = self.find(key), None
        if share is not None and share.leader is not leader:
            share.data_changed(share)  # its epoch has ended
            share = self.find(key)
        if share is not None and share in self._to_retire:
            del self._to_retire[share]
            share.retire()
            share = self.find(key)
        if share is not None and share.is_retiring:
            before = share.make_way()
            share = None
        if share is None:
            share = LedShare(key, leader, self, before)
            self._groups.setdefault(key.group_id, {})[key] = share
            self.counts.begin(key.group_id)
        return share

    # -- sessions

    def connection_closed(self, session: ShareSession) -> None:
        """Ends the session of a connection that has closed."""
        self.counts.evictions += 1
        ending = self.end_session(session)
        next(ending, None)
        self.spawn(partial(_in_steps, ending))

    def end_session(self, session: ShareSession) -> Iterator[None]:
        """Ends a session immediately. Then releases the records that its member holds in the session's partitions, one
        partition after the other.

        If the member begins a new session meanwhile, the releases stop: the member may have acquired some of the
        records again in the new session. Records that are not yet released then stay acquired until their locks end.
        If the caller closes the iterator, a task continues the releases.
        """
        if not self.sessions.close(session):
            return
        ending = self._ending(session)
        try:
            for _ in ending:
                yield
        except GeneratorExit:
            self.spawn(partial(_in_steps, ending))
            raise

    def _ending(self, session: ShareSession) -> Iterator[None]:
        group_id, member_id = session.group_id, session.member_id

        def is_over() -> bool:
            return self.sessions.has_member(group_id, member_id)

        # A response that is in progress may change the order of the partitions meanwhile.
        for topic_id, partition in list(session.partitions):
            yield
            if is_over():
                return
            share = self.find(SharePartitionKey(group_id, topic_id, partition))
            if share is not None:
                yield from share.release(member_id, is_over)
        for share in list(self._groups.get(group_id, {}).values()):
            if self.sessions.has_group(group_id):
                return
            share.retire()
            yield

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        """Ends all sessions and share partitions when share groups are no longer served (a `Publisher` of the metadata
        loader). Records that members hold are not released: a later leader delivers them again in any case.
        """
        if delta.features.changed and not has_share_groups(image.features):
            self.sessions.close_all()
            self._to_retire |= dict.fromkeys(self)
            self.spawn(partial(_in_steps, self._retire()))

    def _retire(self) -> Iterator[None]:
        while self._to_retire:
            self._to_retire.popitem()[0].retire()
            yield

    # -- for share partitions

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs a task until the broker stops; after that, the next leader does the remaining work."""
        if self._nursery is not None:
            self._nursery.start_soon(work)

    def set_timer(self, share: LedShare, deadline: float | None) -> None:
        """Calls `end_locks` of `share` at that time; None cancels the call."""
        if deadline is None:
            self._timers.cancel(share)
            return
        before = self._timers.earliest()
        self._timers.set(share, deadline)
        if before is None or deadline < before:
            self._timer_changed.set()

    def settings_of(self, group_id: str) -> Sharing:
        """Returns the current settings of a group."""
        found = self._settings.of(group_id)
        if found.rules.dead_letters and not self._queues.are_served:
            return found._replace(rules=found.rules._replace(dead_letters=False))
        return found

    async def deliver(self, share: LedShare, letters: Sequence[DeadLetters]) -> None:
        """Writes letters to the dead-letter queue of the group, or logs the reason why it cannot."""
        await self._queues.deliver(share.key.group_id, share.leader, letters)

    def count_runs(self, change: int) -> None:
        """Adds to the number of runs in flight."""
        self._runs += change

    @property
    def is_full(self) -> bool:
        """Whether no more new records may be acquired."""
        return self._runs >= RUNS_IN_FLIGHT_MAX

    def ended(self, share: LedShare) -> None:
        """Forgets a share partition that has ended."""
        group = self._groups.get(share.key.group_id)
        if group is not None and group.get(share.key) is share:
            del group[share.key]
            if not group:
                del self._groups[share.key.group_id]
                self.counts.end(share.key.group_id)


async def _in_steps(steps: Iterator[None]) -> None:
    for _ in steps:
        await trio.lowlevel.checkpoint()
