"""Concurrent requests about many transactions: a micro-batch has one transaction per task, possibly hundreds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from trimaran.spark.origins.running_cluster.connection import ClusterSettings
from trimaran.spark.sink.exactly_once.coordinator import TransactionCoordinators

# The maximum number of concurrent requests, each on its own connections. Each takes a flush and a round trip, and a
# coordinator needs only one flush for transactions that end at the same time.
AT_ONCE = 16
# The minimum number of transactions per thread, because each thread must first connect to the coordinators.
SHARE = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


class CoordinatorPool:
    """Applies a function to many items; each of its threads has its own client."""

    def __init__(self, cluster: ClusterSettings, own: TransactionCoordinators) -> None:
        """`own` is used if the calling thread does all the work."""
        self._cluster = cluster
        self._own = own

    def map(
        self,
        function: Callable[[TransactionCoordinators, Item], Result],
        items: Sequence[Item],
    ) -> tuple[Result, ...]:
        """Returns the results in the order of the items. After an error of the function, which is raised, no further
        item is begun. Raises DataUnreadable: a thread cannot connect.
        """
        count = min(AT_ONCE, len(items) // SHARE)
        if count < 2:
            return tuple(function(self._own, item) for item in items)
        results: dict[int, Result] = {}
        failed = threading.Event()

        def run(number: int) -> Exception | None:
            with self._cluster.client() as client:
                coordinators = self._own.through(client)
                try:
                    for index in range(number, len(items), count):
                        if failed.is_set():
                            break
                        results[index] = function(coordinators, items[index])
                except Exception as error:  # noqa: BLE001 - it is raised in the caller's thread, as it is
                    failed.set()
                    return error
            return None

        with ThreadPoolExecutor(count) as threads:
            for error in threads.map(run, range(count)):
                if error is not None:
                    raise error
        return tuple(results[index] for index in range(len(items)))
