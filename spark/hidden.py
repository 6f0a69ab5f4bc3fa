"""Files that hide our packages: a `log.py` or `wire.py` beside somebody's script is imported in place of ours.

Without a word from us that ends in "'log' is not a package", on executors only. Imports nothing of ours.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

OURS = ("wire", "log", "node", "quorum")  # what the sources import; `spark` is where this is asked
_ROOT = Path(__file__).resolve().parent.parent


class PackageHidden(ImportError):
    """Another file has the name of one of our packages and comes first on the path; the message names it."""


def ensure_not_hidden() -> None:
    """Raises PackageHidden."""
    for name in OURS:
        if (other := hiding(name)) is not None:
            raise PackageHidden(
                f"{other} hides trimaran's package '{name}': Python finds it first. Rename that file (and remove "
                f"__pycache__ beside it), or start elsewhere"
            )


def hiding(name: str) -> str | None:
    """The file that is imported in place of our package; None when it is ours."""
    loaded = sys.modules.get(name)
    spec = loaded.__spec__ if loaded is not None else PathFinder.find_spec(name)
    origin = getattr(loaded, "__file__", None) if spec is None else spec.origin
    if origin is None:  # a folder without __init__.py, or nothing at all
        return str(next(iter(spec.submodule_search_locations or ()), name)) if spec else None
    return None if Path(origin).resolve() == _ROOT / name / "__init__.py" else origin
