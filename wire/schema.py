"""How a Kafka message is declared: one class for all its versions, each field with its ranges.

    @request(key=1, versions="4-18", flexible="12+")
    class FetchRequest(Message):
        replica_id: int32 = field("0-14", default=-1)
        topics: list[FetchTopic]

Annotations name wire types; type checkers see `int`, `str`, … and check constructors. The words are
those of Kafka's message JSON (versions, nullable, tag, ignorable). A field that some version lacks
states its default. Encoders and decoders are generated on first use (`wire.codec`).

Classes are slotted and keyword-only like dataclasses, but made without `dataclass()`: hundreds of
declarations must not cost a process start-up time and memory for methods nobody calls.
Left out: Kafka's `mapKey` and `entityType`, which do not travel.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Self,
    TypeVar,
    dataclass_transform,
)

from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.outgoing import Outgoing, Records
from wire.primitives import NIL_UUID

VERSION_END = 0x7FFF


class Wire(NamedTuple):
    """The wire type an annotation stands for; `fmt` is the `struct` letter of a fixed-size one."""

    name: str
    fmt: str
    zero: Any


int8 = Annotated[int, Wire("int8", "b", 0)]
int16 = Annotated[int, Wire("int16", "h", 0)]
uint16 = Annotated[int, Wire("uint16", "H", 0)]
int32 = Annotated[int, Wire("int32", "i", 0)]
uint32 = Annotated[int, Wire("uint32", "I", 0)]
int64 = Annotated[int, Wire("int64", "q", 0)]
float64 = Annotated[float, Wire("float64", "d", 0.0)]
boolean = Annotated[bool, Wire("bool", "?", False)]
uuid = Annotated[bytes, Wire("uuid", "16s", NIL_UUID)]
string = Annotated[str, Wire("string", "", "")]
data = Annotated[bytes, Wire("bytes", "", b"")]
record_batches = Annotated[Records, Wire("records", "", None)]


class Versions(NamedTuple):
    """A closed range of versions, as Kafka writes it; `low > high` is the empty range."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Reads `"3+"`, `"0-12"`, `"7"` or `"none"`."""
        return _parse_versions(text)

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


@cache
def _parse_versions(text: str) -> Versions:
    if text == "none":
        return Versions(1, 0)
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_END)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


class _Missing:
    """The default of a field that every constructor call must give."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


class Field(NamedTuple):
    """One declared field. `nullable` is None when the annotation alone decides."""

    name: str
    annotation: Any
    versions: Versions
    nullable: Versions | None
    tag: int | None
    ignorable: bool
    default: Any
    factory: Callable[[], Any] | None

    @property
    def required(self) -> bool:
        return self.default is MISSING and self.factory is None

    def value_default(self) -> Any:
        """The default where it can be shared: every one but a list."""
        return self.default if self.factory is None else default_struct(self.factory)


class _Declared(NamedTuple):
    """What `field(...)` answers while a class body runs: the arguments of `Field` but the name."""

    versions: str
    nullable: str | None
    tag: int | None
    ignorable: bool
    default: Any
    factory: Callable[[], Any] | None


_PLAIN = _Declared("0+", None, None, False, MISSING, None)


def field(
    versions: str = "0+",
    *,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declares a field.

    Args:
        versions: where the field exists; elsewhere it has its default.
        default: its value where absent or not given; Kafka's, as it decides whether a tag is sent.
        factory: `list`, or the struct whose default (one frozen instance) is the default here.
        nullable: where null may be written, when not in all `versions` of an optional annotation.
        tag: number of a tagged field (flexible versions only).
        ignorable: a value other than the default may be dropped in versions without the field.
    """
    return _Declared(versions, nullable, tag, ignorable, default, factory)


def _field_of(name: str, annotation: Any, declared: Any) -> Field:
    if not isinstance(declared, _Declared):
        declared = _PLAIN._replace(default=declared)
    return Field(
        name,
        annotation,
        Versions.parse(declared.versions),
        None if declared.nullable is None else Versions.parse(declared.nullable),
        declared.tag,
        declared.ignorable,
        declared.default,
        declared.factory,
    )


class StructMeta(type):
    """Turns the annotations of a class body into `__slots__` and `__fields__`."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> "StructMeta":
        annotations = body.get("__annotations__", {})
        if "__slots__" not in body:
            body["__fields__"] = tuple(
                _field_of(n, a, body.pop(n, _PLAIN)) for n, a in annotations.items()
            )
            body["__slots__"] = tuple(annotations)
        return super().__new__(mcs, name, bases, body)


def _compile_init(cls: type["Struct"]) -> Callable[..., None]:
    """Writes the constructor of `cls`: one assignment per field."""
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters, lines = [], []
    for i, f in enumerate(cls.__fields__):
        if f.required:
            parameters.append(f.name)
        elif f.factory is list:
            parameters.append(f"{f.name}=MISSING")  # None is a value of a nullable field
            lines.append(f"    self.{f.name} = [] if {f.name} is MISSING else {f.name}")
            continue
        else:
            names[f"d{i}"] = f.value_default()
            parameters.append(f"{f.name}=d{i}")
        lines.append(f"    self.{f.name} = {f.name}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(
        lines or ["    pass"]
    )
    exec(source, names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@dataclass_transform(field_specifiers=(field,), kw_only_default=True)
class Struct(metaclass=StructMeta):
    """A structure inside a message; compares by value, is mutable and so not hashable."""

    __slots__: ClassVar[tuple[str, ...]] = ()
    __fields__: ClassVar[tuple[Field, ...]] = ()
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        init = _compile_init(cls)
        cls.__init__ = init  # type: ignore[method-assign]
        init(self, **values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.__fields__ is not self.__fields__:
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.__fields__)

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.__fields__)
        return f"{type(self).__name__}({shown})"

    def replace(self, **changes: Any) -> Self:
        """A shallow copy with some fields changed."""
        values = {f.name: getattr(self, f.name) for f in self.__fields__}
        return self.__class__(**(values | changes))


@cache
def default_struct(cls: type[Struct]) -> Struct:
    """The instance that stands wherever a message leaves a field of this struct at its default.

    All messages share it, so it refuses assignment, and its lists refuse to grow: give the field a struct of its own.
    (One made for each message costs more than the rest of a partition of a Fetch response.)
    """
    body: dict[str, Any] = {
        "__slots__": (),
        "__class__": cls,  # to all who ask it is a plain `cls`
        "__setattr__": _refuse_assignment,
        "__reduce__": lambda _self: (default_struct, (cls,)),
    }
    frozen: Any = StructMeta(cls.__name__, (cls,), body)
    value: Struct = object.__new__(frozen)
    for f in cls.__fields__:
        object.__setattr__(value, f.name, _SharedList() if f.factory is list else f.value_default())
    return value


def _refuse_assignment(self: Any, *_values: Any) -> Any:
    raise AttributeError(f"{self!r} is a default that messages share: replace it as a whole")


class _SharedList(list[Any]):
    """The empty list of a shared default."""

    __slots__ = ()
    append = extend = insert = __iadd__ = _refuse_assignment


class DecodeBudget(NamedTuple):
    """What one message may make us do; more is the peer's fault. Nesting needs no bound: no schema is recursive."""

    bytes_max: int
    """Of the message's body."""
    elements_max: int
    """Of all arrays in it, with the arrays and the tagged fields themselves."""
    tags_max: int
    """Tagged fields of one struct or header. Kafka 4.3 declares 5 at most; 20 million took brokers down."""


# The largest honest message is the Metadata of 50,000 partitions with 3 replicas: some 550,000 elements. One costs 32 to
# 700 bytes of objects, so this bounds a message at some 300 MB, however small its elements are on the wire. Its bytes are
# bounded where frames are.
DECODE_BUDGET = DecodeBudget(bytes_max=0x7FFFFFFF, elements_max=1_000_000, tags_max=128)

# ApiVersions, SaslHandshake and SaslAuthenticate have no arrays; a Kerberos ticket stays below Kafka's 512 KiB
# (`sasl.server.max.receive.size`).
DECODE_BUDGET_BEFORE_AUTHENTICATION = DecodeBudget(bytes_max=524_288, elements_max=64, tags_max=16)


Writer = Callable[[Any, bytearray], None]
# The message, where it ends, and what is left of the elements that it may have.
Reader = Callable[[Any, int, int], tuple[Any, int, int]]


# What generated writers raise on values that are not of their fields' types.
_NOT_WRITABLE = (struct.error, UnicodeEncodeError, AttributeError, TypeError, OverflowError)


def _cannot_write(value: Struct, version: int, error: Exception) -> LocalProtocolError:
    return LocalProtocolError(f"{type(value).__name__} v{version} cannot be written: {error}")


class Message(Struct):
    """A structure that travels on its own: request, response, metadata record, log record value."""

    __slots__ = ()
    KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[Versions] = Versions(0, 0)
    FLEXIBLE: ClassVar[Versions] = Versions(1, 0)
    writers: ClassVar[dict[int, Writer]]
    readers: ClassVar[dict[int, Reader]]

    def encode(self, version: int) -> bytes:
        """The body in `version`.

        Raises:
            LocalProtocolError: that version cannot say this, or does not exist; or the message
                holds splices.
        """
        out = Outgoing()
        self.encode_into(out, version)
        if out.splices:
            raise LocalProtocolError(f"{type(self).__name__} with splices is more than bytes")
        return bytes(out)

    def encode_into(self, out: Outgoing, version: int) -> None:
        """Appends the body; after an error `out` holds rubbish. Raises as `encode` does."""
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
        """The message that is exactly `buf`; record fields are views of it, all else is copied.

        Raises:
            RemoteProtocolError: whatever is wrong with the bytes, more than `budget`, or no such version.
        """
        found, pos = cls.decode_prefix(buf, version, budget)
        if pos != len(buf):
            raise RemoteProtocolError(
                f"{cls.__name__} v{version} is followed by {len(buf) - pos} bytes"
            )
        return found

    @classmethod
    def decode_prefix(
        cls,
        buf: bytes | bytearray | memoryview,
        version: int,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> tuple[Self, int]:
        """As `decode`, but more may follow: the message and where it ends."""
        found, end, _ = cls.decode_counted(buf, version, budget)
        return found, end

    @classmethod
    def decode_counted(
        cls,
        buf: bytes | bytearray | memoryview,
        version: int,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> tuple[Self, int, int]:
        """As `decode_prefix`, and how many elements of the budget it took."""
        if len(buf) > budget.bytes_max:
            raise RemoteProtocolError(
                f"{cls.__name__} has {len(buf)} bytes, more than {budget.bytes_max}"
            )
        read = cls.readers.get(version) or cls._make_reader(version)
        try:
            found, end, left = read(buf, budget.elements_max, budget.tags_max)
            return found, end, budget.elements_max - left
        except _BAD_BYTES as error:
            too_short = isinstance(error, (IndexError, struct.error))
            why = "it ends too soon" if too_short else str(error)
            raise RemoteProtocolError(f"{cls.__name__} v{version} is malformed: {why}") from error

    @classmethod
    def _make_writer(cls, version: int) -> Writer:
        if version not in cls.VERSIONS:
            raise LocalProtocolError(f"{cls.__name__} has no version {version}")
        from wire.codec.build import build_writer

        writer = cls.writers[version] = build_writer(cls, version)
        return writer

    @classmethod
    def _make_reader(cls, version: int) -> Reader:
        if version not in cls.VERSIONS:
            raise RemoteProtocolError(f"{cls.__name__} has no version {version}")
        from wire.codec.build import build_reader

        reader = cls.readers[version] = build_reader(cls, version)
        return reader


class EncodedArray(list[Any]):
    """An array of structs whose elements are their encodings (`encode_element`), for those that many answers have in common.

    It takes the place of the list in a message that is encoded in the same version; nobody else can read it.
    """

    __slots__ = ()


def encode_element(struct_: Struct, of: type[Message], version: int) -> bytes:
    """One element of an array in the message `of`, without record bytes. Raises as `Message.encode` does."""
    out = bytearray()
    try:
        _element_writer(type(struct_), of, version)(struct_, out)
    except _NOT_WRITABLE as error:
        raise _cannot_write(struct_, version, error) from error
    return bytes(out)


@cache
def _element_writer(struct_: type[Struct], of: type[Message], version: int) -> Writer:
    from wire.codec.build import build_element_writer

    return build_element_writer(struct_, of, version)


# What generated readers raise on bad bytes: short buffers (IndexError, struct.error), text that is
# not UTF-8 (a ValueError), and sizes beyond what the interpreter can hold.
_BAD_BYTES = (IndexError, struct.error, ValueError, OverflowError, MemoryError, RecursionError)

M = TypeVar("M", bound=Message)


def message(
    *, key: int = -1, versions: str, flexible: str = "none"
) -> Callable[[type[M]], type[M]]:
    """Class decorator giving a `Message` its key and every version that Kafka ever released."""

    def declare(cls: type[M]) -> type[M]:
        cls.KEY = key
        cls.VERSIONS = Versions.parse(versions)
        cls.FLEXIBLE = Versions.parse(flexible)
        cls.writers = {}
        cls.readers = {}
        return cls

    return declare


request = response = record = message
