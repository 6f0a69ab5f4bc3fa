"""Which names a topic may have: they become names of directories (Kafka's `Topic.validate`)."""

from __future__ import annotations

import re

# 255 bytes of a file name less what deletion appends to it.
NAME_CHARS_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def invalid_topic_name(name: str) -> bool:
    return not 0 < len(name) <= NAME_CHARS_MAX or name in (".", "..") or _LEGAL.match(name) is None
