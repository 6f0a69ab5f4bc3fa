"""The ZooKeeper session of an earlier process, kept in the mirror's state directory so that brokers do not vanish for a
moment.

Since the password suffices to take over the session, the file is readable by its owner only. A damaged file, or one for
another ZooKeeper, counts as none: this costs one session timeout, not a refusal to start.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

SESSION_FILE = "zookeeper-session.json"


@dataclass(frozen=True, slots=True)
class SavedSession:
    session_id: int
    password: bytes


def load_session(path: str, connect: str) -> SavedSession | None:
    """Returns the session saved for `connect`, None if there is none to resume."""
    try:
        content = json.loads(Path(path).read_bytes())
        session = SavedSession(int(content["session_id"], 16), bytes.fromhex(content["password"]))
        is_whole = -(1 << 63) <= session.session_id < 1 << 63 and len(session.password) == 16
        return session if is_whole and content["connect"] == connect else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save_session(path: str, connect: str, session: SavedSession) -> None:
    """Replaces the file atomically; a crash leaves the old or the new one. There is no fsync, since a lost file only
    makes brokers vanish for a moment. Raises OSError.
    """
    content = {
        "connect": connect,
        "session_id": f"{session.session_id:x}",
        "password": session.password.hex(),
    }
    temporary = f"{path}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(content, file)
    os.replace(temporary, path)
