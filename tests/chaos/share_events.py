"""The required result of a share group's members, as events of records in the order in which they were observed:
`delivered VALUE COUNT`, then `accepted VALUE RESULT` or `released VALUE RESULT`, where RESULT is `ok` or an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ShareVerdict:
    """Counts of errors of a share group, all of which must be 0.

    Args:
        lost: acknowledged inputs that were never delivered.
        open: inputs with a last delivery that the broker did not report as accepted or as failed.
        doubled: deliveries of a value after its acceptance.
        miscounted: deliveries whose count is not larger than that of the last one that was released.
    """

    lost: int
    open: int
    doubled: int
    miscounted: int

    @property
    def ok(self) -> bool:
        return not (self.lost or self.open or self.doubled or self.miscounted)


def judge(acked: Iterable[bytes], lines: Iterable[str]) -> ShareVerdict:
    """Returns the verdict on the lines of members; other lines are ignored. An acknowledgement with an error may have
    been effective: such a value may be delivered again, and need not.
    """
    counts, released = Counter[str](), Counter[str]()
    done, unknown = set[str](), set[str]()
    doubled = miscounted = 0
    for line in lines:
        event, _, rest = line.partition(" ")
        if event not in ("delivered", "accepted", "released"):
            continue
        value, said = rest.split()
        if event == "delivered":
            doubled += value in done
            miscounted += int(said) <= released[value]
            counts[value] = int(said)
            unknown.discard(value)
        elif said != "ok":
            unknown.add(value)
        elif event == "accepted":
            done.add(value)
        else:
            released[value] = counts[value]
    wanted = {value.decode() for value in acked}
    return ShareVerdict(
        lost=len(wanted - counts.keys()),
        open=len(wanted - done - unknown),
        doubled=doubled,
        miscounted=miscounted,
    )
