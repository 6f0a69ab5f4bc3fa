"""What a tool's znode comes to, as a value. Pure.

An order is carried out in steps: its `claim` is written under the mirror's guard, which proves that this mirror still
leads; its asks go to the active controller, one after the other; when the tree shows what was committed by then its
`tidy` is written, and the mirror compares `entities` again. Each step may be done twice: a mirror that is killed in the
middle leaves the znode, and the next one begins anew with the image of then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trimaran.wire.errors import ErrorCode
from trimaran.wire.schema import Message
from trimaran.zkcompat.tree.claim import Step

TIMEOUT_MS = 30_000
# Of partitions in one request: a controller decides about them in one piece.
PARTITIONS_IN_REQUEST = 1_000

# The quorum did not decide: the same request may be asked again.
_UNDECIDED = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


class Kind(StrEnum):
    """What a tool may want; the words of `trimaran.zk.legacy.admin.kinds`."""

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
    """The controller did not decide about a request, and may when it is asked again."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the active controller; `refusals` reads from its response what was refused, in sentences.

    A credential that is to be stored, which no request says, is its record. `refusals` raises UndecidedError.
    """

    request: Message
    refusals: Callable[[Any], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Order:
    """`what` is a sentence for the log. `refused` are refusals that need no asking; what may be obeyed is asked all the
    same. `secrets` are znodes to be hidden from others before.
    """

    kind: Kind
    what: str
    asks: Sequence[Ask] = ()
    refused: Sequence[str] = ()
    claim: Sequence[Step] = ()
    tidy: Sequence[Step] = ()
    entities: Sequence[str] = ()
    secrets: Sequence[str] = ()


def refusal(what: str, code: int, message: str | None, *obeyed: ErrorCode) -> list[str]:
    """The sentence for an error code of a response; none for NONE and for those that mean `obeyed`.

    Raises UndecidedError.
    """
    error = ErrorCode.of(code)
    if error is ErrorCode.NONE or error in obeyed:
        return []
    if error in _UNDECIDED:
        raise UndecidedError(f"{what}: {error.name}")
    said = f": {message}" if message and message != error.name else ""
    return [f"{what}: {error.name}{said}"]


def portions(items: Iterable[Any], size: int = PARTITIONS_IN_REQUEST) -> list[list[Any]]:
    """The items in requests of a bounded size."""
    everything = list(items)
    return [everything[at : at + size] for at in range(0, len(everything), size)]
