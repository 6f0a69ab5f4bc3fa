"""Claims about an application's run; each is one test of the suite."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Self

SHOWN_MAX = 2000  # characters of a value in the log


class Claims:
    """A block that runs an application; `states` are by "APPLICATION: CLAIM". An error in the block makes the claim
    `runs to its end` fail. The log has the error, and each failed claim.
    """

    def __init__(self, application: str, log: Path) -> None:
        self.states: dict[str, str] = {}
        self._application = application
        self._log = log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> bool:
        said = "".join(traceback.format_exception(error)) if error is not None else None
        self.equal("runs to its end", None, said)
        return isinstance(error, Exception)

    def equal(self, claim: str, wanted: object, found: object) -> None:
        """Passes if both are equal."""
        self.states[f"{self._application}: {claim}"] = "passed" if wanted == found else "failed"
        if wanted != found:
            shown = f"{claim}\n  wanted {_short(wanted)}\n  found  {_short(found)}\n"
            self._say(shown + _difference(wanted, found))

    def note(self, text: str) -> None:
        """Stores a figure that is not a claim, such as the amount of work done."""
        self._say(f"{text}\n")

    def _say(self, text: str) -> None:
        with self._log.open("a") as log:
            log.write(text)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}… ({len(text)} characters)"


def _difference(wanted: object, found: object) -> str:
    """Returns the first difference of two mappings or two lists."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = [key for key in wanted | found if wanted.get(key) != found.get(key)]
        return "".join(
            f"  {key}: {_short(wanted.get(key))} / {_short(found.get(key))}\n" for key in keys[:10]
        )
    if isinstance(wanted, list) and isinstance(found, list):
        pairs = zip(wanted, found, strict=False)
        index = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(wanted), len(found)))
        return f"  part at {index}: {wanted[index : index + 5]} / {found[index : index + 5]}\n"
    return ""
