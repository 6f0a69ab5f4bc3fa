"""A kernel that syncs when a test says so, and fails if it is told to."""

from __future__ import annotations

import os

from node.runtime.kernel_syncs import use


class HeldSyncs:
    """In the place of `node.runtime.linux_aio.Fdatasyncs`, by `held`."""

    def __init__(self):
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.takes = True
        self.submitted = []  # descriptors, for each tag
        self._completed = []

    def submit(self, descriptors):
        if not self.takes:
            return None
        self.submitted.append(list(descriptors))
        return len(self.submitted) - 1

    def complete(self, tag, error=0):
        """One file of that batch."""
        self._completed.append((tag, error))
        os.eventfd_write(self.eventfd, 1)

    def completed(self):
        os.eventfd_read(self.eventfd)
        completed, self._completed = self._completed, []
        return completed


def held():
    """The one of this trio run."""
    syncs = HeldSyncs()
    use(syncs)
    return syncs
