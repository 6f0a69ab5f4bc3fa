"""Imports of the command line that happen at first use, so that help and errors load no client and no server.

A file of commands imports its modules at the top, as every file does: `from trimaran.client import topics`. Inside
`imports_deferred` such a module is found immediately, and executed when a name in it is first used. `from … import
name` executes it immediately, so commands import only from light modules that way. Outside the block, as in tests,
imports work as usual.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

from trimaran.cli.commands import DEFERRED, IMMEDIATE


@contextmanager
def imports_deferred() -> Iterator[None]:
    """Defers the modules in the table of commands while commands and arguments are looked up."""
    sys.meta_path.insert(0, _Finder)
    try:
        yield
    finally:
        sys.meta_path.remove(_Finder)


class _Finder:
    """A finder of modules for `sys.meta_path`."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns None for a module that is not deferred."""
        if not name.startswith(DEFERRED) or name.startswith(IMMEDIATE):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = LazyLoader(spec.loader)
        return spec
