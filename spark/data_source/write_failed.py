"""The error of the sink."""

from __future__ import annotations


class WriteFailed(Exception):
    """Records were not written; the message names the topic, the partition and the remedy."""
