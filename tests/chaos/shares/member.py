"""A member of a share group: it reads from each broker in a separate session, decides by a seeded rule, and records
everything.

In the history each session is a member named `member@node`, since locks do not outlive a leader.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import Any

from tests.chaos.shares.leaders import Leaders
from tests.share_history import (
    Decision,
    Delivery,
    History,
    Kind,
    Left,
    LostFetch,
    Place,
    Result,
)
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.wire.blocking import BlockingClient, BlockingConnection
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages import share_acknowledge, share_fetch
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from trimaran.wire.messages.share_fetch import ShareFetchRequest
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GROUP, TOPIC = "sharers", "shared"
LIMIT, LOCK_SECONDS = 4, 5.0
# The time without a response after which a member closes a connection.
CALL_SECONDS = 4.0
MAX_WAIT_MS = 300
MAX_RECORDS = 40
FINAL_EPOCH = -1
MISSING = b"<no record>"

_REFUSALS = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)

Choice = tuple[Kind, ...]
IGNORE: Choice = ()
# The decisions about a delivery, with weights; a poison record is always released.
CHOICES: Mapping[Choice, int] = {
    (Kind.ACCEPT,): 62,
    (Kind.RELEASE,): 14,
    (Kind.REJECT,): 8,
    (Kind.RENEW, Kind.ACCEPT): 8,
    (Kind.RENEW,): 2,
    IGNORE: 6,
}
POISON_SHARE = 0.04
LEAVE_SHARE = 0.01
AT_ONCE_SHARE = 0.5


class SessionOver(Exception):
    """Raised if the broker does not continue the session."""


def choice_of(seed: int, delivery: Delivery) -> Choice:
    """Returns the decisions about a delivery, one after another, by seed, place and count."""
    place = delivery.place
    if random.Random(f"{seed}/{place.partition}/{place.offset}").random() < POISON_SHARE:
        return (Kind.RELEASE,)
    prng = random.Random(f"{seed}/{place.partition}/{place.offset}/{delivery.count}")
    (choice,) = prng.choices(list(CHOICES), list(CHOICES.values()))
    return choice


class ShareMember:
    """A member with a thread for its heartbeats, and one for each broker."""

    def __init__(self, name: str, seed: int, leaders: Leaders, history: History) -> None:
        self.name, self.seed, self.leaders, self.history = name, seed, leaders, history
        self.assigned: set[int] = set()
        self.errors: Counter[str] = Counter()

    def beat(self, bootstrap: str, stop: threading.Event) -> None:
        """Sends heartbeats until the end of the run, and joins again if necessary."""
        epoch = 0
        with BlockingClient(bootstrap, client_id=f"share-member-{self.name}") as client:
            while not stop.wait(0.5):
                # Each request is a full one, because the assignment may have been in a lost response.
                request = ShareGroupHeartbeatRequest(
                    group_id=GROUP,
                    member_id=self.name,
                    member_epoch=epoch,
                    subscribed_topic_names=[TOPIC],
                )
                try:
                    answer = client.call(
                        CoordinatorNode(GROUP), request, timeout=CALL_SECONDS, attempt_timeout=2.0
                    )
                except (ConnectionLost, RequestTimedOut):
                    continue
                epoch = 0 if answer.error_code else answer.member_epoch
                if answer.assignment is not None:
                    parts = answer.assignment.topic_partitions
                    self.assigned = {index for each in parts for index in each.partitions}

    def read(self, node: int, address: str, stop: threading.Event) -> None:
        """Reads from one broker until the end."""
        ((host, port),) = parse_bootstrap(address)
        prng = random.Random(f"{self.seed}/{self.name}/{node}")
        while not stop.is_set():
            if not self.wanted(node):
                stop.wait(0.1)
                continue
            session = None
            try:
                connection = BlockingConnection(
                    (host, port), f"share-member-{self.name}", timeout=CALL_SECONDS
                )
                session = Session(self, node, connection, prng)
                while not stop.is_set() and (self.wanted(node) or session.has_work):
                    session.turn(self.wanted(node))
                session.leave()
            except (ConnectionLost, RequestTimedOut, SessionOver):
                stop.wait(0.3)
            finally:
                if session is not None:
                    session.end()

    def wanted(self, node: int) -> set[int]:
        return self.assigned & self.leaders.of(node)


class Session:
    """One share session; it records the times before each request and after its response."""

    def __init__(
        self, member: ShareMember, node: int, connection: BlockingConnection, prng: random.Random
    ) -> None:
        self._member, self._node, self._connection, self._prng = member, node, connection, prng
        self._name = f"{member.name}@{node}"
        self._history = member.history
        self._topic_id = member.leaders.topic_id
        self._epoch = 0
        self._partitions: set[int] = set()
        self._partitions_ever: set[int] = set()
        self._queued: list[tuple[Delivery, Kind]] = []
        self._asked = time.monotonic()

    @property
    def has_work(self) -> bool:
        return bool(self._queued)

    def turn(self, wanted: set[int]) -> None:
        """Fetches once, and decides about acquired records. Raises ConnectionLost, RequestTimedOut or SessionOver."""
        deliveries = self._fetch(wanted)
        time.sleep(self._prng.uniform(0, 0.05))
        renewed, decided = [], []
        for delivery in deliveries:
            choice = choice_of(self._member.seed, delivery)
            renewed += [(delivery, kind) for kind in choice if kind is Kind.RENEW]
            decided += [(delivery, kind) for kind in choice if kind is not Kind.RENEW]
        if renewed:
            self._acknowledge(renewed, is_renewal=True)
        if self._prng.random() < LEAVE_SHARE:
            raise SessionOver("the member does not continue")
        if self._prng.random() < AT_ONCE_SHARE:
            self._acknowledge(decided)
        else:
            self._queued += decided

    def leave(self) -> None:
        """Ends the session with the final epoch."""
        self._left(time.monotonic())
        if self._epoch:
            self._epoch = FINAL_EPOCH
            self._acknowledge([])

    def end(self) -> None:
        """Ends the session with its connection; the broker releases all records."""
        self._connection.close()
        self._left(self._asked)

    # -- requests

    def _fetch(self, wanted: set[int]) -> list[Delivery]:
        decided, self._queued = self._queued, []
        added = wanted if not self._epoch else wanted - self._partitions
        gone = self._partitions - wanted
        acks = self._batches(decided, share_fetch.AcknowledgementBatch)
        partitions = [
            share_fetch.FetchPartition(
                partition_index=index, acknowledgement_batches=acks.get(index, [])
            )
            for index in sorted(added | set(acks))
        ]
        gone |= set(acks) - wanted  # an acknowledgement adds the partition to the session
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self._member.name,
            share_session_epoch=self._epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_records=MAX_RECORDS,
            batch_size=MAX_RECORDS,
            share_acquire_mode=self._prng.randrange(2),
            topics=self._topics(share_fetch.FetchTopic, partitions),
            forgotten_topics_data=self._topics(share_fetch.ForgottenTopic, sorted(gone)),
        )
        self._partitions = set(wanted)
        self._partitions_ever |= wanted
        answer, sent, received = self._call(request, decided, wanted)
        found = {
            data.partition_index: data for topic in answer.responses for data in topic.partitions
        }
        codes = {index: data.acknowledge_error_code for index, data in found.items()}
        self._note(decided, codes, sent, received)
        self._epoch += 1
        deliveries = [
            delivery
            for data in found.values()
            if not self._is_error(data.error_code)
            for delivery in self._deliveries(data, sent, received)
        ]
        self._history.deliveries += deliveries
        return deliveries

    def _acknowledge(
        self, decided: Sequence[tuple[Delivery, Kind]], *, is_renewal: bool = False
    ) -> None:
        acks = self._batches(decided, share_acknowledge.AcknowledgementBatch)
        partitions = [
            share_acknowledge.AcknowledgePartition(
                partition_index=index, acknowledgement_batches=batches
            )
            for index, batches in acks.items()
        ]
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self._member.name,
            share_session_epoch=self._epoch,
            is_renew_ack=is_renewal,
            topics=self._topics(share_acknowledge.AcknowledgeTopic, partitions),
        )
        answer, sent, received = self._call(request, decided, ())
        codes = {
            data.partition_index: data.error_code
            for topic in answer.responses
            for data in topic.partitions
        }
        self._note(decided, codes, sent, received)
        if self._epoch != FINAL_EPOCH:
            self._epoch += 1

    def _call(
        self, request: Any, decided: Iterable[tuple[Delivery, Kind]], fetched: Iterable[int]
    ) -> tuple[Any, float, float]:
        """Returns the response, and the times before the request and after the response. Raises ConnectionLost,
        RequestTimedOut or SessionOver.
        """
        self._asked = sent = time.monotonic()
        try:
            answer = self._connection.call(request, timeout=CALL_SECONDS)
        except (ConnectionLost, RequestTimedOut):
            self._note_lost(decided, sent)
            self._history.lost += [LostFetch(self._name, index, sent) for index in fetched]
            raise
        if answer.error_code:
            self._note_lost(decided, sent)
            self._member.errors[ErrorCode(answer.error_code).name] += 1
            raise SessionOver(ErrorCode(answer.error_code).name)
        return answer, sent, time.monotonic()

    def _is_error(self, code: int) -> bool:
        self._member.errors[ErrorCode(code).name] += code != 0
        return code != 0

    def _topics(self, kind: Any, partitions: list[Any]) -> list[Any]:
        return [kind(topic_id=self._topic_id, partitions=partitions)] if partitions else []

    @staticmethod
    def _batches(decided: Iterable[tuple[Delivery, Kind]], kind: Any) -> dict[int, list[Any]]:
        """Returns the batches of acknowledgements by partition; each has a type for each offset."""
        types = {delivery.place: given for delivery, given in decided}
        batches: dict[int, list[Any]] = defaultdict(list)
        for _, run in groupby(
            enumerate(sorted(types)), lambda each: (each[1].partition, each[1].offset - each[0])
        ):
            places = [place for _, place in run]
            batches[places[0].partition].append(
                kind(
                    first_offset=places[0].offset,
                    last_offset=places[-1].offset,
                    acknowledge_types=[types[place].value for place in places],
                )
            )
        return batches

    # -- notes

    def _deliveries(self, data: Any, sent: float, received: float) -> list[Delivery]:
        values = {
            record.offset: record.value
            for batch in iter_batches(memoryview(data.records or b""))
            for record in decode_records(batch)
        }
        return [
            Delivery(
                self._name,
                Place(data.partition_index, offset),
                part.delivery_count,
                sent,
                received,
                values.get(offset, MISSING),
                self._node,
            )
            for part in data.acquired_records
            for offset in range(part.first_offset, part.last_offset + 1)
        ]

    def _note(
        self,
        decided: Sequence[tuple[Delivery, Kind]],
        codes: Mapping[int, int],
        sent: float,
        received: float,
    ) -> None:
        # All decisions about a partition succeed or fail together: one expired lock makes all of them fail.
        late = {
            delivery.place.partition
            for delivery, _ in decided
            if received > delivery.sent + LOCK_SECONDS
        }
        for delivery, kind in decided:
            partition = delivery.place.partition
            code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._member.errors[ErrorCode(code).name] += code != 0
            result = (
                Result.CONFIRMED
                if not code
                else Result.REFUSED
                if code in _REFUSALS
                else Result.UNKNOWN
            )
            term = None if partition in late else self._node
            self._history.decisions.append(
                Decision(self._name, delivery.place, kind, result, sent, received, term)
            )

    def _note_lost(self, decided: Iterable[tuple[Delivery, Kind]], sent: float) -> None:
        self._history.decisions += [
            Decision(self._name, delivery.place, kind, Result.UNKNOWN, sent, inf)
            for delivery, kind in decided
        ]

    def _left(self, at: float) -> None:
        self._history.left += [Left(self._name, index, at) for index in self._partitions_ever]
