"""The two entrances of code generation, called on the first use of a message in a version."""

from wire.codec.reader import ReaderGenerator
from wire.codec.writer import WriterGenerator
from wire.schema import Message, Reader, Writer


def build_writer(cls: type[Message], version: int) -> Writer:
    return WriterGenerator(version, version in cls.FLEXIBLE).build(cls)


def build_reader(cls: type[Message], version: int) -> Reader:
    return ReaderGenerator(version, version in cls.FLEXIBLE).build(cls)
