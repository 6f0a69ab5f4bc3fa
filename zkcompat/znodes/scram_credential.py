"""The text of a SCRAM credential among the configs of a user. Source: Kafka's `ScramCredentialUtils`."""

from __future__ import annotations

from base64 import b64encode

from wire.records.security import UserScramCredentialRecord

# By their numbers in the metadata log.
SCRAM_KEYS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def scram_text(record: UserScramCredentialRecord) -> str:
    """A secret: keys to try passwords against, and to stand in for the broker."""
    parts = {
        "salt": record.salt,
        "stored_key": record.stored_key,
        "server_key": record.server_key,
    }
    texts = [f"{name}={b64encode(bytes(value)).decode()}" for name, value in parts.items()]
    return ",".join([*texts, f"iterations={record.iterations}"])
