"""Messages: one class for all versions of a message, which encodes and decodes itself.

    @request(key=1, versions="4-18", flexible="12+")
    class FetchRequest(Message):
        replica_id: int32 = field("0-14", default=-1)
        topics: list[FetchTopic]

Annotations name wire types (`trimaran.wire.codec.declarations`); type checkers see `int`, `str`, … and check
constructors. A field that some version lacks declares its default. Encoders and decoders are generated on first use
(`trimaran.wire.codec`). Not implemented: Kafka's `mapKey` and `entityType`, which are not on the wire.
"""

import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.codec.declarations import DeclaredMessage, Reader, Struct, Versions, Writer
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.wire.codec import build
else:
    build = imported_later("trimaran.wire.codec.build")


class DecodeBudget(NamedTuple):
    """The bound of the work that one message may cause; exceeding it is the peer's fault. Nesting needs no bound,
    because no schema is recursive.
    """

    bytes_max: int
    """The maximum size of the message's body."""
    elements_max: int
    """The maximum number of elements of all its arrays, plus the arrays and the tagged fields themselves."""
    tags_max: int
    """Tagged fields of one struct or header. Kafka 4.4 declares 9 at most, and reads 10,000."""


# The largest honest message is the Metadata of 50,000 partitions with 3 replicas: about 550,000 elements. An element
# costs 32 to 700 bytes of objects, so this bounds a message at about 300 MB, even if its elements are small on the
# wire. The size of its frame bounds its bytes.
DECODE_BUDGET = DecodeBudget(bytes_max=0x7FFFFFFF, elements_max=1_000_000, tags_max=128)

# ApiVersions, SaslHandshake and SaslAuthenticate have no arrays; a Kerberos ticket stays below Kafka's 512 KiB
# (`sasl.server.max.receive.size`).
DECODE_BUDGET_BEFORE_AUTHENTICATION = DecodeBudget(bytes_max=524_288, elements_max=64, tags_max=16)

# Exceptions of generated writers for values that do not have the types of their fields.
_NOT_WRITABLE = (struct.error, UnicodeEncodeError, AttributeError, TypeError, OverflowError)


def _cannot_write(value: Struct, version: int, error: Exception) -> LocalProtocolError:
    return LocalProtocolError(f"{type(value).__name__} v{version} cannot be written: {error}")


def _malformed(
    cls: type[DeclaredMessage], version: int, error: BaseException
) -> RemoteProtocolError:
    too_short = isinstance(error, (IndexError, struct.error))
    why = "it ends too soon" if too_short else str(error)
    return RemoteProtocolError(f"{cls.__name__} v{version} is malformed: {why}")


def _is_followed(cls: type[DeclaredMessage], version: int, count: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{cls.__name__} v{version} is followed by {count} bytes")


def _has_no(cls: type[DeclaredMessage], version: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{cls.__name__} has no version {version}")


class Message(DeclaredMessage):
    """A top-level structure on the wire: a request, response, metadata record or log record value."""

    __slots__ = ()
    writers: ClassVar[dict[int, Writer]]
    readers: ClassVar[dict[int, Reader]]

    def encode(self, version: int) -> bytes:
        """Returns the body in `version`.

        Raises:
            LocalProtocolError: the version cannot express the message, or does not exist; or the message has splices.
            ResponseTooLarge: the response exceeds the largest permitted size.
        """
        out = Outgoing()
        self.encode_into(out, version)
        if out.splices:
            raise LocalProtocolError(f"{type(self).__name__} with splices is more than bytes")
        return bytes(out)

    def encode_into(self, out: Outgoing, version: int) -> None:
        """Appends the body; after an error the content of `out` is undefined. Raises as `encode` does."""
        write = self.writers.get(version) or self._make_writer(version)
        try:
            write(self, out)
        except _NOT_WRITABLE as error:
            raise _cannot_write(self, version, error) from error

    @classmethod
    def decode(
        cls,
        buf: bytes | bytearray | memoryview,
        version: int,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> Self:
        """Decodes the message that occupies exactly `buf`; record fields are views of it, all other fields are copied.

        Raises:
            RemoteProtocolError: the bytes are malformed, exceed `budget`, or there is no such version.
        """
        found, pos, _ = cls.decode_counted(buf, version, budget)
        if pos != len(buf):
            raise _is_followed(cls, version, len(buf) - pos)
        return found

    @classmethod
    def decoder(cls, version: int) -> Callable[[bytes | memoryview], Self]:
        """Returns a `decode` function for one version, which costs half as much for many small messages. Raises as
        `decode` does.
        """
        read = cls.readers.get(version) or cls._make_reader(version)
        _, elements_max, tags_max = DECODE_BUDGET

        def decode(buf: bytes | memoryview) -> Any:
            try:
                found, end, _ = read(buf, elements_max, tags_max)
            except _BAD_BYTES as error:
                raise _malformed(cls, version, error) from error
            if end != len(buf):
                raise _is_followed(cls, version, len(buf) - end)
            return found

        return decode

    @classmethod
    def bulk_decoder(cls, version: int) -> Callable[[Iterable[bytes], bytes], list[Self] | None]:
        """Returns a function that decodes many small messages, each after the same prefix, at a third of the cost of
        `decoder`.

        The function returns None if one of them is refused, or if no decoder was compiled: decode them one by one to
        find the refused message and the reason.

        Raises:
            RemoteProtocolError: there is no such version.
        """
        if version not in cls.VERSIONS:
            raise _has_no(cls, version)
        read = build.build_bulk_reader(cls, version)
        _, elements_max, tags_max = DECODE_BUDGET

        def decode(bufs: Iterable[bytes], prefix: bytes) -> list[Any] | None:
            return read(bufs, prefix, elements_max, tags_max)

        return decode

    @classmethod
    def decode_prefix(
        cls,
        buf: bytes | bytearray | memoryview,
        version: int,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> tuple[Self, int]:
        """Decodes a message as `decode` does, but permits trailing bytes; returns the message and its end."""
        found, end, _ = cls.decode_counted(buf, version, budget)
        return found, end

    @classmethod
    def decode_counted(
        cls,
        buf: bytes | bytearray | memoryview,
        version: int,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> tuple[Self, int, int]:
        """Decodes a message as `decode_prefix` does; also returns the number of elements of the budget that were
        used.
        """
        if len(buf) > budget.bytes_max:
            raise RemoteProtocolError(
                f"{cls.__name__} has {len(buf)} bytes, more than {budget.bytes_max}"
            )
        read = cls.readers.get(version) or cls._make_reader(version)
        try:
            found, end, left = read(buf, budget.elements_max, budget.tags_max)
            return found, end, budget.elements_max - left
        except _BAD_BYTES as error:
            raise _malformed(cls, version, error) from error

    @classmethod
    def _make_writer(cls, version: int) -> Writer:
        if version not in cls.VERSIONS:
            raise LocalProtocolError(f"{cls.__name__} has no version {version}")
        writer = cls.writers[version] = build.build_writer(cls, version)
        return writer

    @classmethod
    def _make_reader(cls, version: int) -> Reader:
        if version not in cls.VERSIONS:
            raise _has_no(cls, version)
        reader = cls.readers[version] = build.build_reader(cls, version)
        return reader


def encode_element(struct_: Struct, of: type[Message], version: int) -> bytes:
    """Encodes one element of an array in the message `of`, without record bytes. Raises as `Message.encode` does."""
    out = bytearray()
    try:
        _element_writer(type(struct_), of, version)(struct_, out)
    except _NOT_WRITABLE as error:
        raise _cannot_write(struct_, version, error) from error
    return bytes(out)


@cache
def _element_writer(struct_: type[Struct], of: type[Message], version: int) -> Writer:
    return build.build_element_writer(struct_, of, version)


# Exceptions of generated readers for malformed bytes: short buffers (IndexError, struct.error), text that is not UTF-8
# (a ValueError), and sizes beyond the interpreter's limits.
_BAD_BYTES = (IndexError, struct.error, ValueError, OverflowError, MemoryError, RecursionError)

M = TypeVar("M", bound=Message)


def message(
    *, key: int = -1, versions: str, flexible: str = "none"
) -> Callable[[type[M]], type[M]]:
    """Returns a class decorator that declares the key of a `Message` and all versions that Kafka ever released."""

    def declare(cls: type[M]) -> type[M]:
        cls.KEY = key
        cls.VERSIONS = Versions.parse(versions)
        cls.FLEXIBLE = Versions.parse(flexible)
        cls.writers = {}
        cls.readers = {}
        return cls

    return declare


def response(*, key: int, versions: str, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Returns a class decorator for a response: its encoder refuses to exceed the size of a response
    (`trimaran.wire.buffers.response_size`).
    """
    declare = message(key=key, versions=versions, flexible=flexible)

    def declare_response(cls: type[M]) -> type[M]:
        cls.IS_RESPONSE = True
        return declare(cls)

    return declare_response


request = record = message
