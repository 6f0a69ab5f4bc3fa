"""Deferred imports, for extras, which may not be installed, and for modules that few runs need.

The import still appears at the top of its file, for readers, type checkers and import contracts:

    if TYPE_CHECKING:
        import jwt
    else:
        jwt = imported_later("jwt")
"""

from importlib import import_module
from typing import Any


def imported_later(name: str) -> Any:
    """Returns a proxy for the module `name`: accessing an attribute imports the module, which may raise
    ModuleNotFoundError.
    """
    return _Later(name)


class _Later:
    """The proxy. It holds no module, so it is cheap to create, and threads may share it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
