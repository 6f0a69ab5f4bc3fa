"""The observations of a share group's members as lines of text, in the order in which they were made: `delivered VALUE
COUNT`, then `accepted VALUE RESULT` or `released VALUE RESULT`, where RESULT is `ok` or an error. Values are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from tests.share_history import (
    Breach,
    Decision,
    Delivery,
    Ending,
    History,
    Kind,
    LostFetch,
    Place,
    Result,
    Rule,
    Settings,
    judge,
)

KINDS = {"accepted": Kind.ACCEPT, "released": Kind.RELEASE}
# Kafka's default of `group.share.delivery.count.limit`.
LIMIT = 5


def broken(acked: Iterable[bytes], lines: Iterable[str], limit: int = LIMIT) -> list[Breach]:
    """Returns the violations of the rules of share groups, after a run in which all of `acked` was shared. Other lines
    are ignored. A value counts as done if its last delivery was accepted; an acceptance with an error may be effective.
    `limit` is the largest number of deliveries of the group.
    """
    history, done = History(), set[Place]()
    for time, line in enumerate(lines):
        event, _, rest = line.partition(" ")
        if event != "delivered" and event not in KINDS:
            continue
        value, said = rest.split()
        place = Place(0, int(value))
        if event == "delivered":
            done.discard(place)
            history.deliveries.append(Delivery("m", place, int(said), time, time))
            continue
        is_ok = said == "ok"
        result = Result.CONFIRMED if is_ok else Result.UNKNOWN
        received = time if is_ok else inf
        history.decisions.append(Decision("m", place, KINDS[event], result, time, received))
        if not is_ok or event == "accepted":
            done.add(place)
    # Clients do not report lost responses. A record may have been in some of them, but not in all.
    history.lost = [LostFetch("m", 0, -1.0)] * (limit - 1)
    log = {Place(0, int(value)): value for value in acked}
    return [
        breach
        for breach in judge(history, Settings(limit, inf), Ending(log, done.__contains__))
        if breach.rule is not Rule.ALTERED  # the broker may have stored unacknowledged records
    ]
