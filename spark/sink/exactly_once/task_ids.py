"""Transactional ids of tasks: two transactions of which both may still be open never have the same one.

A coordinator remembers an id for a week, so an id for each attempt of each task would fill its memory. An id belongs to
a Python worker of Spark, which runs one task at a time: it is used again when the driver has begun another micro-batch,
because all transactions of the worker's earlier tasks have ended then. Zombies have ids of their own.
"""

from __future__ import annotations

import os
import secrets

from trimaran.spark.sink.exactly_once.protocol import ProducerLease

# The end of an id, after the prefix of the query.
TASK_ID = r"-task-[0-9a-f]{16}-\d+"
# The number of earlier micro-batches that a worker recognizes, so that a task of one that begins late gets a new id.
REMEMBERED = 64


class TaskIds:
    """The ids of one process. `lease` is that of the driver, a new one for each attempt at a micro-batch."""

    def __init__(self) -> None:
        self._process = 0
        self._token = ""
        self._used = 0
        self._leases: list[ProducerLease] = []

    def next(self, prefix: str, lease: ProducerLease) -> str:
        """Returns the id of the next transaction."""
        if self._process != os.getpid():  # workers are forked
            self.__init__()  # type: ignore[misc]
            self._process, self._token = os.getpid(), secrets.token_hex(8)
        if lease in self._leases[:-1]:
            return f"{prefix}-task-{secrets.token_hex(8)}-0"
        if lease not in self._leases:
            self._leases = [*self._leases[-REMEMBERED:], lease]
            self._used = 0
        self._used += 1
        return f"{prefix}-task-{self._token}-{self._used - 1}"


TASK_IDS = TaskIds()
