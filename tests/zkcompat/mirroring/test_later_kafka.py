"""A mirror of a later Kafka's quorum: it continues, and its log names what it omitted."""

from dataclasses import replace

import trio

from trimaran.quorum.metadata.image import EMPTY, UnknownRecords
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.mirroring.status import MirrorStatus, Reporting
from trimaran.zkcompat.quorum_feed.feed import ImageFeed

FIRST, SECOND = UnknownRecord(29, 0, 40), UnknownRecord(30, 1, 90)


def said(count, *kinds):
    return replace(EMPTY, unknown=UnknownRecords(count, kinds))


async def test_log_names_each_unknown_record_kind_once(autojump_clock, caplog):
    feed = ImageFeed()
    reporting = Reporting(feed, None, MirrorStatus(), Quarantine(trio.current_time))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reporting.watch_quorum)
        for image in (EMPTY, said(1, FIRST), said(2, FIRST), said(3, FIRST, SECOND)):
            feed.image = image
            await trio.sleep(3)
        nursery.cancel_scope.cancel()
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "The metadata log has 1 record of a later Kafka (type 29 version 0 at offset 40)",
        "The metadata log has 3 records of a later Kafka (type 29 version 0 at offset 40, "
        "type 30 version 1 at offset 90)",
    ]
