"""A kernel that syncs when the test permits it, and fails on request."""

from __future__ import annotations

import os

from trimaran.log.durability.syncing import use


class HeldSyncs:
    """Replaces `trimaran.log.durability.syncing.Fdatasyncs`, by `held`."""

    def __init__(self):
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.takes_max = 100
        self.submitted = []  # descriptors by tag
        self._left = []
        self._completed = []

    def submit(self, descriptors):
        taken = list(descriptors)[: self.takes_max]
        if not taken:
            return -1, 0
        self.submitted.append(taken)
        self._left.append(len(taken))
        return len(self.submitted) - 1, len(taken)

    def complete(self, tag, error=0):
        """Completes one file of that batch."""
        self._left[tag] -= 1
        self._completed.append((tag, error))
        os.eventfd_write(self.eventfd, 1)

    def complete_rest(self):
        for tag, left in enumerate(self._left):
            for _ in range(left):
                self.complete(tag)

    def completed(self):
        os.eventfd_read(self.eventfd)
        completed, self._completed = self._completed, []
        return completed


def held():
    """Returns the object of this trio run."""
    syncs = HeldSyncs()
    use(syncs)
    return syncs
