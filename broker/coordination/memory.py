"""The approximate memory of the shards of one coordinator, which is bounded in total."""

from __future__ import annotations

from typing import Any, Self, TypeVar
from weakref import WeakSet

A = TypeVar("A", bound="Account")


class Account:
    """The bytes that one shard holds. The limit applies to the sum of all `accounts`, until the shard is closed."""

    def __init__(self, accounts: WeakSet[Self] | None = None) -> None:
        # Weak references: a shard that failed to load leaves no account behind.
        self._all: WeakSet[Any] = WeakSet() if accounts is None else accounts
        self._all.add(self)
        self.bytes = 0

    def fits(self, more: int, bytes_max: int) -> bool:
        """Returns whether all accounts together have room for `more` bytes; a negative number always fits."""
        return more <= 0 or sum(account.bytes for account in self._all) + more <= bytes_max

    def close(self) -> None:
        """Removes the account of a closed shard."""
        self._all.discard(self)
