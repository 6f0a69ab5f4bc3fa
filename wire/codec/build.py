"""The entrances of code generation, called on the first use of a message in a version."""

from wire.codec.reader import ReaderGenerator
from wire.codec.writer import WriterGenerator
from wire.schema import Message, Reader, Struct, Writer


def build_writer(cls: type[Message], version: int) -> Writer:
    return WriterGenerator(version, version in cls.FLEXIBLE).build(cls)


def build_element_writer(struct: type[Struct], of: type[Message], version: int) -> Writer:
    """Writes a struct as it stands in an array of the message `of`."""
    return WriterGenerator(version, version in of.FLEXIBLE).build(struct)


def build_reader(cls: type[Message], version: int) -> Reader:
    return ReaderGenerator(version, version in cls.FLEXIBLE).build(cls)
