"""The quorum's only partition: `__cluster_metadata-0` and its fixed topic id (KIP-595)."""

from __future__ import annotations

TOPIC = "__cluster_metadata"
PARTITION = 0
TOPIC_ID = bytes(15) + b"\x01"
DIRECTORY_NAME = f"{TOPIC}-{PARTITION}"
