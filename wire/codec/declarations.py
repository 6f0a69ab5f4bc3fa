"""The parts of a Kafka message: wire types, versions, fields and structs, as their classes declare them.

The terms are those of Kafka's message JSON (versions, nullable, tag, ignorable). Classes are slotted and keyword-only
like dataclasses, but created without `dataclass()`, because hundreds of declarations must not cost start-up time and
memory for unused methods. Messages that encode and decode themselves are in `trimaran.wire.schema`, which uses the
codec; the codec reads only the declarations here.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Self,
    dataclass_transform,
)

from trimaran.wire.buffers.outgoing import Records
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.identity import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    CoordinatorEpoch,
    EndpointEpoch,
    GroupEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    Position,
    ProducerEpoch,
    ProducerId,
    SessionEpoch,
    SnapshotEpoch,
    StateEpoch,
    TopologyEpoch,
)

VERSION_END = 0x7FFF


class Wire(NamedTuple):
    """The wire type of an annotation; `fmt` is the `struct` format code of a fixed-size one."""

    name: str
    fmt: str
    zero: Any


int8 = Annotated[int, Wire("int8", "b", 0)]
int16 = Annotated[int, Wire("int16", "h", 0)]
uint16 = Annotated[int, Wire("uint16", "H", 0)]
int32 = Annotated[int, Wire("int32", "i", 0)]
uint32 = Annotated[int, Wire("uint32", "I", 0)]
int64 = Annotated[int, Wire("int64", "q", 0)]
# Integers that a type checker distinguishes: in metadata records, and in the messages of brokers and controllers.
int32_broker_id = Annotated[BrokerId, Wire("int32", "i", 0)]
int32_node_id = Annotated[NodeId, Wire("int32", "i", 0)]
int32_leader_epoch = Annotated[LeaderEpoch, Wire("int32", "i", 0)]
int32_partition_epoch = Annotated[PartitionEpoch, Wire("int32", "i", 0)]
int32_coordinator_epoch = Annotated[CoordinatorEpoch, Wire("int32", "i", 0)]
int32_group_epoch = Annotated[GroupEpoch, Wire("int32", "i", 0)]
int32_state_epoch = Annotated[StateEpoch, Wire("int32", "i", 0)]
int32_controller_epoch = Annotated[ControllerEpoch, Wire("int32", "i", 0)]
int32_topology_epoch = Annotated[TopologyEpoch, Wire("int32", "i", 0)]
int32_snapshot_epoch = Annotated[SnapshotEpoch, Wire("int32", "i", 0)]
int32_endpoint_epoch = Annotated[EndpointEpoch, Wire("int32", "i", 0)]
int32_session_epoch = Annotated[SessionEpoch, Wire("int32", "i", 0)]
int32_producer_epoch = Annotated[ProducerEpoch, Wire("int32", "i", 0)]
int16_producer_epoch = Annotated[ProducerEpoch, Wire("int16", "h", 0)]
int64_broker_epoch = Annotated[BrokerEpoch, Wire("int64", "q", 0)]
int64_offset = Annotated[Offset, Wire("int64", "q", 0)]
int64_position = Annotated[Position, Wire("int64", "q", 0)]
int64_producer_id = Annotated[ProducerId, Wire("int64", "q", 0)]
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
    """The default of a field that every constructor call must set."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


class Field(NamedTuple):
    """One declared field. `nullable` is None if only the annotation decides."""

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
        """Returns the default if it can be shared, which holds for all except lists."""
        return self.default if self.factory is None else default_struct(self.factory)


class _Declared(NamedTuple):
    """The result of `field(...)` while a class body runs: the arguments of `Field` except the name."""

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
        versions: the versions with the field; in other versions it has its default.
        default: the value if absent or not given; it must be Kafka's, because it decides whether a tag is sent.
        factory: `list`, or the struct of which the default (one frozen instance) is used.
        nullable: versions that may contain null, if not all `versions` of an optional annotation.
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
    """A structure inside a message; it compares by value, and is mutable, hence not hashable."""

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
        """Returns a shallow copy with some fields changed."""
        values = {f.name: getattr(self, f.name) for f in self.__fields__}
        return self.__class__(**(values | changes))


@cache
def default_struct(cls: type[Struct]) -> Struct:
    """Returns the instance that is used if a message leaves a field of this struct at its default.

    All messages share it, so it refuses assignments, and its lists refuse changes: assign a new struct to the field
    instead. (One instance per message would cost more than the rest of a partition of a Fetch response.)
    """
    body: dict[str, Any] = {
        "__slots__": (),
        "__class__": cls,  # it looks like a plain `cls`
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


Writer = Callable[[Any, bytearray], None]
# A reader returns the message, its end, and the number of elements left in the budget.
Reader = Callable[[Any, int, int], tuple[Any, int, int]]
# A bulk reader reads messages after a prefix, and returns None if one of them is refused.
BulkReader = Callable[[Iterable[bytes], bytes, int, int], list[Any] | None]


class DeclaredMessage(Struct):
    """A top-level structure as declared to the codec: its key and its versions."""

    __slots__ = ()
    KEY: ClassVar[int] = -1
    IS_RESPONSE: ClassVar[bool] = False
    VERSIONS: ClassVar[Versions] = Versions(0, 0)
    FLEXIBLE: ClassVar[Versions] = Versions(1, 0)


class EncodedArray(list[Any]):
    """An array of structs whose elements are their encodings (`encode_element`), for elements that many responses
    share.

    It replaces the list in a message that is encoded in the same version; no other code can read it.
    """

    __slots__ = ()
