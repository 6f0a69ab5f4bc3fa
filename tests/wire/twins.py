"""The compiled and the generated decoder of a message, each used alone."""

from collections.abc import Callable

from trimaran.wire.codec import build
from trimaran.wire.codec.build import generated_reader
from trimaran.wire.codec.declarations import Reader
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.schema import _BAD_BYTES, DECODE_BUDGET, DecodeBudget, Message

COMPILED = build.build_decoder is not None


def readers(cls: type[Message], version: int) -> tuple[Reader, Reader]:
    """Returns the compiled decoder, which raises its own refusals here, and the generated one."""
    return build.build_decoder(cls, version, _refused).read, generated_reader(cls, version)


def _refused(*_arguments: object) -> tuple[Message, int, int]:
    raise RemoteProtocolError


def outcome(
    read: Callable[..., tuple[Message, int, int]], data: bytes, budget: DecodeBudget = DECODE_BUDGET
) -> tuple[Message, int, int] | None:
    """Returns the message, its end and the number of elements left; None for bytes that are refused."""
    try:
        return read(data, budget.elements_max, budget.tags_max)
    except (RemoteProtocolError, *_BAD_BYTES):
        return None
