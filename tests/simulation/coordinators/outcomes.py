"""Responses to clients about transactions, and the outcomes. Each value in a transaction has the form
`input/transaction`, and each offset in it has the transaction as its note.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from tests.simulation.coordinators.batches import Batch

Require = Callable[..., None]


class Outcomes:
    """The outcomes of transactions; `visible` counts the committed values by input."""

    def __init__(self, require: Require) -> None:
        self._require = require
        self.visible: Counter[bytes] = Counter()
        self._known: dict[str, bool] = {}
        self._told: dict[str, bool] = {}
        self._acked: defaultdict[str, set[bytes]] = defaultdict(set)
        self._seen: defaultdict[str, set[bytes]] = defaultdict(set)
        # By producer id: the newest epoch that was returned to a client.
        self.begun: dict[int, int] = {}
        self._begun: set[tuple[int, int]] = set()

    def began(self, producer_id: int, epoch: int) -> None:
        """Checks T5: each response of InitProducerId has a different epoch."""
        who = (producer_id, epoch)
        self._require(who not in self._begun, "T5", who, "is answered to two producers")
        self._begun.add(who)
        self.begun[producer_id] = max(self.begun.get(producer_id, -1), epoch)

    def appended(self, place: object, batch: Batch) -> None:
        """Checks T5: once a new epoch was returned, nothing with an older one is written."""
        if batch.is_transactional and batch.marker is None:
            begun = self.begun.get(batch.producer_id, -1)
            self._require(
                batch.producer_epoch >= begun,
                *("T5", place, batch.base, "is of", batch.producer_id, batch.producer_epoch),
                *("though", begun, "was answered"),
            )

    def ended(self, value: bytes, is_commit: bool) -> None:
        """Notes a value whose marker was committed. Checks T1: all markers of a transaction have the same outcome; and
        T10: no value is in the output twice.
        """
        what, _, transaction = value.partition(b"/")
        if is_commit:
            self.visible[what] += 1
            self._require(self.visible[what] == 1, "T10", value, "is there twice")
            self._seen[transaction.decode()].add(value)
        self.became(transaction.decode(), is_commit)

    def became(self, transaction: str, is_commit: bool) -> None:
        known = self._known.setdefault(transaction, is_commit)
        self._require(known == is_commit, "T1", transaction, "was committed in part")
        told = self._told.get(transaction, is_commit)
        self._require(told == is_commit, "T1", transaction, "was answered to be committed:", told)

    def acked(self, value: bytes) -> None:
        self._acked[value.partition(b"/")[2].decode()].add(value)

    def told(self, transaction: str, is_commit: bool) -> None:
        """Notes a successful response of EndTxn."""
        self._told[transaction] = is_commit
        if transaction in self._known:
            self.became(transaction, self._known[transaction])

    def check_complete(self) -> None:
        """Checks T1 at the end: every acknowledged value of a committed transaction is visible."""
        for transaction, is_commit in self._told.items():
            lost = self._acked[transaction] - self._seen[transaction] if is_commit else set()
            self._require(not lost, "T1", transaction, "was committed without", lost)
