"""Requests about many transactions at a time: a micro-batch of hundreds of tasks has as many transactions to end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from trimaran.spark.origins.running_cluster.connection import ClusterSettings
from trimaran.spark.sink.exactly_once.coordinator import TransactionCoordinators

# Requests at a time, each over connections of its own. A coordinator flushes for each transaction, so more of them
# share a flush; a driver of hundreds of tasks does not get faster beyond this.
AT_ONCE = 16
# Transactions for each thread, at least: a thread connects to the coordinators first.
SHARE = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


class CoordinatorPool:
    """Applies a function to many items; each of its threads has its own client."""

    def __init__(self, cluster: ClusterSettings, own: TransactionCoordinators) -> None:
        """`own` serves this thread."""
        self._cluster = cluster
        self._own = own

    def map(
        self,
        function: Callable[[TransactionCoordinators, Item], Result],
        items: Sequence[Item],
    ) -> tuple[Result, ...]:
        """Returns the results in the order of the items. After an error, which is raised, no further item is begun."""
        count = min(AT_ONCE, len(items) // SHARE)
        if count < 2:
            return tuple(function(self._own, item) for item in items)
        results: dict[int, Result] = {}
        failed = threading.Event()

        def run(number: int) -> None:
            try:
                with self._cluster.client() as client:
                    coordinators = self._own.through(client)
                    for index in range(number, len(items), count):
                        if failed.is_set():
                            return
                        results[index] = function(coordinators, items[index])
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(count) as threads:
            for _ in threads.map(run, range(count)):
                pass
        return tuple(results[index] for index in range(len(items)))
