"""Regular expressions of the operator that are matched against names of clients, in linear time.

RE2 supports no look-ahead and no back-references.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import re2
else:
    re2 = imported_later("re2")


def compiled_in_linear_time(pattern: str) -> Any:
    """Returns the compiled pattern. Raises ValueError: it is not a pattern of RE2."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"the pattern {pattern} cannot be used: {error}") from error
