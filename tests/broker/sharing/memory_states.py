"""The states of share partitions in memory, as in a share coordinator; writes can be delayed or fail."""

from __future__ import annotations

import trio

from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.wire.errors import ErrorCode, KafkaError


class MemoryStates:
    """Implements `ShareStates`. `failure` is raised by writes and reads; `open` lets them pass."""

    def __init__(self) -> None:
        self.summaries = {}
        self.records = {}
        self.written = []
        self.writing = self.writing_max = 0
        self.failure = None
        self.open = trio.Event()
        self.open.set()

    @property
    def written_batches(self):
        """Returns all written batches, however they were divided into writes."""
        return [batch for written in self.written for batch in written]

    async def initialize(self, key, state_epoch, start_offset):
        self.summaries[key] = ShareSummary(state_epoch, -1, start_offset, None)
        self.records[key] = {}

    async def read(self, key, leader_epoch):
        await self._pass()
        summary = self._summary(key, leader_epoch)._replace(leader_epoch=leader_epoch)
        self.summaries[key] = summary
        return ShareState(summary, tuple(self._batches(key)))

    async def summary(self, key, leader_epoch):
        return self._summary(key, leader_epoch)

    async def write(self, key, summary, batches):
        self.writing += 1
        self.writing_max = max(self.writing_max, self.writing)
        try:
            await self._pass()
        finally:
            self.writing -= 1
        self._summary(key, summary.leader_epoch)
        self.written.append([tuple(batch) for batch in batches])
        self.summaries[key] = summary
        records = self.records[key]
        for first, last, state, count in batches:
            records |= dict.fromkeys(range(first, last + 1), (state, count))
        self.records[key] = {
            offset: found for offset, found in records.items() if offset >= summary.start_offset
        }

    async def delete(self, key):
        self.summaries.pop(key, None)

    async def _pass(self):
        await trio.lowlevel.checkpoint()
        await self.open.wait()
        if self.failure is not None:
            raise KafkaError(self.failure)

    def _summary(self, key, leader_epoch):
        summary = self.summaries.get(key, ShareSummary(0, -1, None, None))
        if leader_epoch < summary.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        self.summaries[key] = summary
        self.records.setdefault(key, {})
        return summary

    def _batches(self, key):
        batches = []
        for offset, (state, count) in sorted(self.records[key].items()):
            last = batches[-1] if batches else None
            if last is not None and last.last_offset == offset - 1 and last[2:] == (state, count):
                batches[-1] = last._replace(last_offset=offset)
            else:
                batches.append(StateBatch(offset, offset, state, count))
        return batches
