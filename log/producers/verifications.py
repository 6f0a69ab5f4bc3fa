"""Producers that were verified with their coordinator and have not appended since: the rules for their next batch.

Two batches may be in flight. If the verification of the first fails and that of the second succeeds, the second must
wait until the first is sent again (KAFKA-14920).
Source: Kafka's `VerificationStateEntry`, `ProducerAppendInfo.checkSequence` (KIP-890).
"""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.log.batches.batch import BatchView
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import ProducerEpoch, ProducerId

# The maximum number of entries of one partition: 200 KiB. Above it the oldest entry is removed; the producer's next
# batch may then have any sequence.
VERIFICATIONS_MAX = 1_000


@dataclass(slots=True)
class Verification:
    """A verification.

    `lowest_sequence` is the lowest sequence of the verified batches of `epoch`. `has_own_epoch` is True if each
    transaction of the producer has its own epoch (`transaction.version` 2), so its first batch has sequence 0.
    """

    epoch: ProducerEpoch
    lowest_sequence: int
    has_own_epoch: bool


class Verifications:
    """The verifications by producer id, the oldest first."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[ProducerId, Verification] = {}

    def begin(self, view: BatchView, *, has_own_epoch: bool) -> None:
        """Notes that the coordinator is being queried for a client's batch `view`."""
        asked = self._asked.get(view.producer_id)
        if asked is None:
            if len(self._asked) >= VERIFICATIONS_MAX:
                del self._asked[next(iter(self._asked))]
            self._asked[view.producer_id] = Verification(
                view.producer_epoch, view.base_sequence, has_own_epoch
            )
        elif view.producer_epoch > asked.epoch:
            asked.epoch, asked.lowest_sequence = view.producer_epoch, view.base_sequence
        elif view.producer_epoch == asked.epoch:
            asked.lowest_sequence = min(asked.lowest_sequence, view.base_sequence)

    def check(self, view: BatchView, *, is_new: bool) -> None:
        """Checks whether `view` may be the first batch since the verification; `is_new`: the partition has no batch of
        its producer.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        asked = self._asked.get(view.producer_id)
        if asked is None:
            return
        first = 0 if is_new and asked.has_own_epoch else asked.lowest_sequence
        if view.base_sequence > first:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {view.producer_id} begins with sequence {view.base_sequence}, {first} is first",
            )

    def end(self, producer_id: ProducerId) -> None:
        """Ends the verification: a batch or a marker of the producer was appended."""
        if self._asked:
            self._asked.pop(producer_id, None)
