from collections.abc import Iterable

from trimaran.wire.codec.declarations import DeclaredMessage, Reader, Struct
from trimaran.wire.codec.reading import Bytes

class Refused(Exception): ...

class Op:
    def __init__(
        self,
        format_code: str,
        slot: object,
        nullable: bool = False,
        tag: int = -1,
        value: object = None,
        program: Program | None = None,
        item: Op | None = None,
        least: int = 1,
    ) -> None: ...

class Program:
    def __init__(
        self, struct: type[Struct], ops: list[Op], tagged: list[Op], refused: tuple[int, ...]
    ) -> None: ...

class Decoder:
    def __init__(self, program: Program, flexible: bool, refused: Reader) -> None: ...
    def read(
        self, buf: Bytes, elements_max: int, tags_max: int
    ) -> tuple[DeclaredMessage, int, int]: ...
    def attempt(
        self, buf: Bytes, elements_max: int, tags_max: int
    ) -> tuple[DeclaredMessage, int, int]: ...
    def read_all(
        self, bufs: Iterable[bytes], prefix: bytes, elements_max: int, tags_max: int
    ) -> list[DeclaredMessage] | None: ...
