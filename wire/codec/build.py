"""The entry points of codecs, called at the first use of a message in a version. Only this module chooses between
generated and compiled code.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from trimaran.wire.codec.declarations import BulkReader, DeclaredMessage, Reader, Struct, Writer
from trimaran.wire.codec.reader import ReaderGenerator
from trimaran.wire.codec.writer import WriterGenerator

if TYPE_CHECKING:
    from trimaran.wire.codec.native import Decoder

BuildDecoder = Callable[[type[DeclaredMessage], int, Reader], "Decoder"]

build_decoder: BuildDecoder | None
try:
    from trimaran.wire.codec import program
except ImportError:  # The module is not compiled.
    build_decoder = None
else:
    build_decoder = program.build_decoder


def build_writer(cls: type[DeclaredMessage], version: int) -> Writer:
    return WriterGenerator(version, version in cls.FLEXIBLE, cls.IS_RESPONSE).build(cls)


def build_element_writer(struct: type[Struct], of: type[DeclaredMessage], version: int) -> Writer:
    """Returns the writer of a struct as an element of an array in the message `of`."""
    return WriterGenerator(version, version in of.FLEXIBLE).build(struct)


def build_reader(cls: type[DeclaredMessage], version: int) -> Reader:
    """Returns the compiled decoder if there is one, combined with generated code that reports the fault in refused
    bytes.
    """
    if build_decoder is None:
        return generated_reader(cls, version)
    return _decoder(build_decoder, cls, version).read


def build_bulk_reader(cls: type[DeclaredMessage], version: int) -> BulkReader:
    """Returns a reader of many messages. Without the compiled decoder it always returns None, as it does for refused
    bytes; the caller handles both.
    """
    if build_decoder is None:
        return lambda _bufs, _prefix, _elements_max, _tags_max: None
    return _decoder(build_decoder, cls, version).read_all


def _decoder(build: BuildDecoder, cls: type[DeclaredMessage], version: int) -> "Decoder":
    def refused(buf: Any, elements_max: int, tags_max: int) -> tuple[Any, int, int]:
        return generated_reader(cls, version)(buf, elements_max, tags_max)

    return build(cls, version, refused)


@cache
def generated_reader(cls: type[DeclaredMessage], version: int) -> Reader:
    return ReaderGenerator(version, version in cls.FLEXIBLE).build(cls)
