"""The server log of each kind of group: members join, fall silent and leave, and each line comes before its effects."""

from __future__ import annotations

import logging

from tests.broker.groups.driver import Driver
from tests.broker.groups.share.driver import ShareDriver
from tests.broker.groups.streams.driver import StreamsDriver
from tests.checks import check_each

FENCED = "g: member a is fenced: its session expired"
LEFT = "g: member b leaves"


def joined(member_id, kind=""):
    return f"g: member {member_id} joins the {kind}group"


def target(epoch, members=1):
    return f"g: target of epoch {epoch} for {members} members"


def beat_consumer(driver, member_id, epoch):
    return driver.consumer_heartbeat(member_id, epoch, owned={}).member_epoch


def beat_share(driver, member_id, epoch):
    return driver.beat(member_id, epoch).member_epoch


def beat_streams(driver, member_id, epoch):
    return driver.beat(member_id, epoch).response.member_epoch


KINDS = {
    "consumer": (Driver, beat_consumer, "", [FENCED, target(4)], []),
    # The next heartbeat computes the target.
    "share": (ShareDriver, beat_share, "share ", [FENCED], [target(4)]),
    "streams": (StreamsDriver, beat_streams, "", [FENCED], [target(4)]),
}


def test_log_names_members_and_reasons_in_order(caplog):
    caplog.set_level(logging.INFO)

    def lines():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    def check(kind):
        make, beat, name, fenced, next_beat = KINDS[kind]
        driver = make()
        beat(driver, "a", 0)
        assert lines() == [joined("a", name), target(2)]
        driver.advance(30)
        epoch = beat(driver, "b", 0)
        assert lines() == [joined("b", name), target(3, 2)]
        driver.advance(14)
        assert lines() == []
        driver.advance(2)
        assert lines() == fenced
        epoch = beat(driver, "b", epoch)
        assert lines() == next_beat
        beat(driver, "b", -1)
        assert lines() == [LEFT]

    check_each(KINDS, check)
