"""Waits until this broker's metadata has all that the controller had committed when the wait began.

The controller answers a forwarded change when it is committed, which is a moment before the brokers have it. With this
wait in between, a client that changes something and then reads it from the same broker sees its change.
The method is Raft's ReadIndex (Ongaro's thesis, 6.4): a Fetch that does not wait returns the leader's high watermark,
which is beyond the change by then. Kafka's brokers answer without such a wait.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.quorum.observing.description import metadata_partition_of
from trimaran.quorum.raft_log.partition import PARTITION, TOPIC_ID
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

# The client's next request to this broker is for metadata; the bound keeps a lagging broker from delaying the response.
SECONDS_MAX = 1.0
# The leader returns one batch, or nothing: only its high watermark is used.
_FETCH_BYTES_MAX = 1


class ReadIndex:
    """Asks the active controller for its high watermark; `epoch` returns the epoch of the quorum's leader."""

    def __init__(
        self,
        controller: ControllerCalls,
        metadata: BrokerMetadata,
        epoch: Callable[[], LeaderEpoch],
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._epoch = epoch

    async def reach(self) -> None:
        """Waits until the image has all committed changes, at most `SECONDS_MAX`. After an error, as when the leader
        has changed, it returns immediately.
        """
        with trio.move_on_after(SECONDS_MAX):
            try:
                committed = await self._committed()
            except (KafkaError, RemoteProtocolError):
                return
            await self._metadata.wait_for(lambda image: image.provenance.offset + 1 >= committed)

    async def _committed(self) -> Offset:
        """Returns the leader's high watermark; -1 if it does not know it, or no longer leads."""
        seen = self._metadata.image.provenance
        partition = FetchPartition(
            partition=PARTITION,
            current_leader_epoch=self._epoch(),
            fetch_offset=Offset(seen.offset + 1),
            last_fetched_epoch=seen.epoch,
            partition_max_bytes=_FETCH_BYTES_MAX,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_FETCH_BYTES_MAX,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
        response = await self._controller.call(request, timeout=SECONDS_MAX)
        assert isinstance(response, FetchResponse)
        return Offset(metadata_partition_of(response.responses).high_watermark)
