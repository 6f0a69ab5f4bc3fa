"""The entrances of codecs, called on the first use of a message in a version: who reads and writes it is decided here
alone.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from wire.codec.reader import ReaderGenerator
from wire.codec.writer import WriterGenerator
from wire.declarations import DeclaredMessage, Reader, Struct, Writer

build_decoder: Callable[[type[DeclaredMessage], int, Reader], Reader] | None
try:
    from wire.codec import program
except ImportError:  # it was not compiled
    build_decoder = None
else:
    build_decoder = program.build_decoder


def build_writer(cls: type[DeclaredMessage], version: int) -> Writer:
    return WriterGenerator(version, version in cls.FLEXIBLE).build(cls)


def build_element_writer(struct: type[Struct], of: type[DeclaredMessage], version: int) -> Writer:
    """Writes a struct as it stands in an array of the message `of`."""
    return WriterGenerator(version, version in of.FLEXIBLE).build(struct)


def build_reader(cls: type[DeclaredMessage], version: int) -> Reader:
    """The compiled decoder, if there is one; generated code then says what is wrong with bytes that it refused."""
    if build_decoder is None:
        return generated_reader(cls, version)

    def refused(buf: Any, elements_max: int, tags_max: int) -> tuple[Any, int, int]:
        return generated_reader(cls, version)(buf, elements_max, tags_max)

    return build_decoder(cls, version, refused)


@cache
def generated_reader(cls: type[DeclaredMessage], version: int) -> Reader:
    return ReaderGenerator(version, version in cls.FLEXIBLE).build(cls)
