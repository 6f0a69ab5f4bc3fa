"""The request in a tool's znode as a value. Pure.

An admin request is carried out in steps. Its `claim` is written under the mirror's guard, which proves that this mirror
still leads. Its quorum requests go to the active controller, one after the other. When the tree shows all records
committed by then, its `cleanup` is written, and the mirror compares `entities` again. Each step may run twice: a
mirror that is killed between them leaves the znode, and the next mirror starts over with the newest image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trimaran.wire.errors import ErrorCode
from trimaran.wire.schema import Message
from trimaran.zkcompat.tree.claim import TransactionStep

TIMEOUT_MS = 30_000
# Partitions in one request: a controller decides about all of them at once.
PARTITIONS_IN_REQUEST = 1_000

# The quorum did not decide: the same request may be sent again.
_UNDECIDED = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


class RequestKind(StrEnum):
    """The kinds of requests, by their names in `trimaran.zk.legacy.admin.kinds`."""

    REASSIGNMENT = "reassignment"
    ELECTION = "election"
    DELETION = "deletion"
    TOPIC = "topic"
    PARTITIONS = "partitions"
    CONFIG = "config"
    QUOTA = "quota"
    ACL = "acl"
    SCRAM = "scram"


class UndecidedError(Exception):
    """The controller did not decide about a request, and may decide when it is sent again."""


@dataclass(frozen=True, slots=True)
class QuorumRequest:
    """A request to the active controller. `refusals` returns the refusals of its response as sentences.

    No Kafka request can store a credential, so `request` is then the credential's record. `refusals` raises
    UndecidedError.
    """

    request: Message
    refusals: Callable[[Any], Sequence[str]]


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """`description` is a sentence for the log. `refused` are refusals that were decided without the quorum; the other
    parts are sent nevertheless. `secrets` are znodes that must be hidden from others first.
    """

    kind: RequestKind
    description: str
    quorum_requests: Sequence[QuorumRequest] = ()
    refused: Sequence[str] = ()
    claim: Sequence[TransactionStep] = ()
    cleanup: Sequence[TransactionStep] = ()
    entities: Sequence[str] = ()
    secrets: Sequence[str] = ()


def refusal(description: str, code: int, message: str | None, *obeyed: ErrorCode) -> list[str]:
    """Returns the sentence for an error code of a response; none for NONE and for the codes `obeyed`.

    Raises UndecidedError.
    """
    error = ErrorCode.of(code)
    if error is ErrorCode.NONE or error in obeyed:
        return []
    if error in _UNDECIDED:
        raise UndecidedError(f"{description}: {error.name}")
    said = f": {message}" if message and message != error.name else ""
    return [f"{description}: {error.name}{said}"]


def portions(items: Iterable[Any], size: int = PARTITIONS_IN_REQUEST) -> list[list[Any]]:
    """Returns the items in portions of a bounded size."""
    everything = list(items)
    return [everything[at : at + size] for at in range(0, len(everything), size)]
