"""The changes that the console can make, if allowed: each is a POST of a form, which is checked and then logged.

Every attempt is logged, whether done or refused. A change with a preview is first shown, and made when it is confirmed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimaran.console import events
from trimaran.console.forms import Fields
from trimaran.console.page import Page, PageRequest
from trimaran.errors.user_error import UserError

audit = logging.getLogger("trimaran.console.audit")

CONFIRMED = "yes"  # the value of the field `confirmed` in the form of a preview
PREVIEW_ROWS_MAX = 500  # rows of a preview that are shown


@dataclass(frozen=True, slots=True)
class Preview:
    """Shows what a change would do: a sentence, and rows with values now and after. `button` makes the change."""

    summary: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    button: str


@dataclass(frozen=True, slots=True)
class ConsoleWrite:
    """A change. `change` makes it and returns the path of a page with the result; `verb` is for the log.

    Args:
        page: the page with the form; a refusal shows it again, with the fields as they were sent.
        preview: returns what the change would do; the change is made when the fields are confirmed.
    """

    path: str
    verb: str
    change: Callable[[PageRequest, Fields], str]
    page: Page
    preview: Callable[[PageRequest, Fields], Preview] | None = None

    def previewed(self, question: PageRequest, fields: Fields) -> Preview | None:
        """Returns the preview that must be confirmed first; None if there is none, or it was confirmed."""
        if self.preview is None or fields.get("confirmed") == CONFIRMED:
            return None
        return self.preview(question, fields)


def perform(write: ConsoleWrite, question: PageRequest, fields: Fields, who: str) -> str:
    """Makes the change and logs it; returns the path of the next page. Raises UserError."""
    words = {**question.path, **fields}
    words.pop("confirmed", None)
    told = " ".join(f"{name}={value!r}" for name, value in words.items())
    try:
        page = write.change(question, fields)
    except Exception as error:
        events.CONSOLE_WRITE_REFUSED.log(
            audit, verb=write.verb, resource=told, user=who, reason=_why(error)
        )
        raise
    finally:
        question.cluster.forget()
    events.CONSOLE_WRITE.log(audit, verb=write.verb, resource=told, user=who)
    return page


def _why(error: Exception) -> str:
    return error.why if isinstance(error, UserError) else str(error)
