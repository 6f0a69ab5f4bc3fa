"""Allows one supervisor per data directory: a file lock that the kernel releases with the process, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from trimaran.errors.user_error import UserError

FILE_NAME = "supervisor.lock"


class ClusterLock:
    """The lock, held from before the plan is made until the supervisor ends; a fork shares it, so forked nodes must
    close `fd`.
    """

    def __init__(self, data: Path) -> None:
        self.fd = os.open(data / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.fd)
            raise UserError(
                f"the cluster in {data} is being started or stopped",
                f"another process holds {data / FILE_NAME}",
                "wait a moment and look at trimaran ps; or choose another --data",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes our end; a supervisor that was forked meanwhile keeps its own."""
        os.close(self.fd)
