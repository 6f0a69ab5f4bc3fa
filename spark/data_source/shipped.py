"""Readers and writers that the driver sends to executors, which refuse those of another version of this package.

Without this check an executor would fail at a field or function that its version does not have.
"""

from __future__ import annotations

import pickle
from functools import cache
from importlib import metadata
from typing import Any

from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.options import OptionError

PLANNING = "pushFilters"  # an attribute that only planning needs; it refers to the reader


class Shipped:
    """A base of readers and writers, which are pickled with the version of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if name != PLANNING}
        # The state is pickled to bytes first: Spark unpickles all arguments before it calls the function, which must
        # check the version.
        return restored, (own_version(), pickle.dumps((type(self), state)))


def restored(version: str, packed: bytes) -> Any:
    """Returns the reader or writer. Raises OptionError if the driver has another version of this package."""
    with without_frames():
        if version != own_version():
            raise OptionError(
                f"the driver has trimaran {version}, this executor has {own_version()}: install the same version on "
                "all machines, or send it with the job (docs/spark.md, On a cluster)"
            )
    kind, state = pickle.loads(packed)
    made = object.__new__(kind)
    made.__dict__.update(state)
    return made


@cache
def own_version() -> str:
    """Returns the version of the installed package; of one without metadata, such as a copied folder, `unknown`."""
    try:
        return metadata.version("trimaran")
    except metadata.PackageNotFoundError:
        return "unknown"
