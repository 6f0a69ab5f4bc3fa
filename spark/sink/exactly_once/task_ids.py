"""Transactional ids of tasks: two transactions that may be open at the same time never have the same id.

A coordinator remembers an id for a week, so an id for each attempt of each task would fill its memory. An id belongs to
a Python worker of Spark, which runs one task at a time: the worker uses the id again when the driver of the query has
begun another micro-batch, because all transactions of its earlier tasks of that query have ended by then. A task of an
earlier micro-batch that begins late (a zombie) gets a new id.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field

from trimaran.spark.sink.exactly_once.protocol import ProducerLease

# The pattern of an id after the prefix of the query.
TASK_ID = r"-task-[0-9a-f]{16}-\d+"
# The number of earlier micro-batches that a worker remembers, to recognize late tasks.
REMEMBERED = 64
# The number of queries whose ids a worker uses again: a session seldom runs more at a time.
QUERIES = 64


@dataclass(slots=True)
class _QueryIds:
    """The ids of one query. `leases` are those of its micro-batches, the newest one last."""

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    used: int = 0
    leases: list[ProducerLease] = field(default_factory=list)

    def is_late(self, lease: ProducerLease) -> bool:
        """Returns whether a task belongs to an earlier micro-batch than the newest one."""
        if lease in self.leases:
            return lease != self.leases[-1]
        return any(
            lease.producer_id == known.producer_id and lease.epoch < known.epoch
            for known in self.leases
        )


class TaskIds:
    """The ids of one process."""

    def __init__(self) -> None:
        self._process = 0
        self._queries: dict[str, _QueryIds] = {}  # by prefix, the most recently used one last

    def next(self, prefix: str, lease: ProducerLease) -> str:
        """Returns the id of the next transaction. `lease` is the driver's, which is new for each attempt at a
        micro-batch.
        """
        if self._process != os.getpid():  # a fork inherits the ids of its parent
            self._process, self._queries = os.getpid(), {}
        ids = self._queries.pop(prefix) if prefix in self._queries else _QueryIds()
        self._queries[prefix] = ids
        if len(self._queries) > QUERIES:
            del self._queries[next(iter(self._queries))]
        if ids.is_late(lease):
            return f"{prefix}-task-{secrets.token_hex(8)}-0"
        if lease not in ids.leases:
            ids.leases = [*ids.leases[-REMEMBERED:], lease]
            ids.used = 0
        ids.used += 1
        return f"{prefix}-task-{ids.token}-{ids.used - 1}"


TASK_IDS = TaskIds()
