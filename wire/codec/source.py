"""The text of one generated function, and its registration with `linecache` for tracebacks."""

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class FunctionSource:
    """The lines of a function under construction and the values of its global names."""

    def __init__(self, **names: Any) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = names
        self._indent = 0
        self._fresh = 0

    def emit(self, *lines: str) -> None:
        self.lines += [f"{'    ' * self._indent}{line}" for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Emits `head` and indents the lines emitted inside the block."""
        self.emit(head)
        self._indent += 1
        size = len(self.lines)
        yield
        if len(self.lines) == size:
            self.emit("pass")
        self._indent -= 1

    def fresh(self, stem: str) -> str:
        """Returns an unused local name."""
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def bind(self, stem: str, value: Any) -> str:
        """Returns a new global name bound to `value`."""
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def packer(self, fmt: str) -> str:
        """Returns the name of a function that packs these `struct` format codes."""
        return self._bind_struct("pack", fmt)

    def unpacker(self, fmt: str) -> str:
        """Returns the name of a function that unpacks these `struct` format codes from a buffer at a position."""
        return self._bind_struct("unpack_from", fmt)

    def iterator(self, fmt: str) -> str:
        """Returns the name of a function that unpacks these codes repeatedly up to a buffer's end."""
        return self._bind_struct("iter_unpack", fmt)

    def _bind_struct(self, method: str, fmt: str) -> str:
        name = f"{method}_{fmt}".replace("?", "t")
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + fmt), method)
        return name

    def constant(self, value: Any) -> str:
        """Returns an expression for a default: its literal if possible, otherwise a global name."""
        if isinstance(value, int | float | str | bytes | None):
            return repr(value)
        return self.bind("default", value)

    def compile(self, function: str, filename: str) -> Callable[..., Any]:
        """Executes the text and returns `function`; tracebacks show the generated lines."""
        lines = [f"{line}\n" for line in self.lines]
        text = "".join(lines)
        linecache.cache[filename] = (len(text), None, lines, filename)
        exec(compile(text, filename, "exec"), self.names)
        made: Callable[..., Any] = self.names[function]
        return made


def fixed_size(fmt: str) -> int:
    """Returns the size of values with these `struct` format codes."""
    return struct.calcsize(">" + fmt)
