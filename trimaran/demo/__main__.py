"""`python -m trimaran.demo`: runs the demo, or names the extra that it needs."""

import sys
from typing import TYPE_CHECKING

from trimaran.errors.extras import of_missing_module
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.demo import story
else:
    story = imported_later("trimaran.demo.story")

if __name__ == "__main__":
    try:
        story.main()
    except ModuleNotFoundError as error:
        if (explained := of_missing_module(error)) is None:
            raise
        print(explained, file=sys.stderr)  # noqa: T201
        sys.exit(explained.exit_code)
