"""The required result of a run of consume-transform-produce: every input is in the output once, and no value of an
aborted transaction is. These are pure functions over the observations; `tests/chaos/test_exactly_once.py` tests them
with broken histories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ABORTED = b"aborted:"
"""How values begin that are produced in transactions which are meant to be aborted."""

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True)
class Verdict:
    """Counts of errors, all of which must be 0.

    Args:
        lost: acknowledged inputs that are not in the output.
        doubled: values that are in the output more than once.
        aborted_seen: values of aborted transactions that a read_committed reader received.
        invented: values in the output that were never sent.
        unstable: offsets at which a concurrent reader saw another value than a reader at the end.
        out_of_order: offsets that a reader received again, or after a larger one.
    """

    lost: int
    doubled: int
    aborted_seen: int
    invented: int
    unstable: int
    out_of_order: int

    @property
    def ok(self) -> bool:
        return not any(
            (
                self.lost,
                self.doubled,
                self.aborted_seen,
                self.invented,
                self.unstable,
                self.out_of_order,
            )
        )

    def __str__(self) -> str:
        return (
            f"lost {self.lost}  doubled {self.doubled}  aborted seen {self.aborted_seen}  invented {self.invented}  "
            f"unstable {self.unstable}  out of order {self.out_of_order}"
        )


def judge(
    sent: Iterable[bytes],
    acked: Iterable[bytes],
    output: Mapping[Place, bytes],
    read_along: Iterable[tuple[Place, bytes]],
) -> Verdict:
    """Returns the verdict. `sent` are all attempted values, `acked` the acknowledged ones, and `output` is what a
    read_committed reader finds at the end.
    """
    along = list(read_along)
    seen = [*output.values(), *(value for _, value in along)]
    counts = Counter(output.values())
    possible = set(sent)
    return Verdict(
        lost=sum(value not in counts for value in set(acked)),
        doubled=sum(count > 1 for count in counts.values()),
        aborted_seen=len({value for value in seen if value.startswith(ABORTED)}),
        invented=len({v for v in seen if v not in possible and not v.startswith(ABORTED)}),
        unstable=sum(output.get(place) != value for place, value in along),
        out_of_order=_out_of_order(place for place, _ in along),
    )


def _out_of_order(places: Iterable[Place]) -> int:
    count, last = 0, dict[int, int]()
    for partition, offset in places:
        count += offset <= last.get(partition, -1)
        last[partition] = offset
    return count
