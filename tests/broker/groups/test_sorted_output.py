"""Partitions and names are sorted in all records, heartbeat responses and descriptions of groups: sets have another
order. Forty partitions of each topic are shared by five members, so that the sets are not sorted by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.broker.groups.driver import Driver, FakeTopics
from tests.broker.groups.share.driver import ShareDriver
from tests.broker.groups.streams.driver import StreamsDriver, subtopology, topology
from tests.checks import check_each
from trimaran.wire.codec.declarations import Struct

MEMBERS = "abcde"
NAMES = ("t", "u", "v", "w")


def lists(node: object) -> Iterator[list[int] | list[str]]:
    """Yields all lists of numbers or names in a message."""
    if isinstance(node, Struct):
        for field in node.__fields__:
            yield from lists(getattr(node, field.name))
    elif isinstance(node, list | tuple):
        if node and all(isinstance(one, int | str) for one in node):
            yield node
        for one in node:
            yield from lists(one)


def topics() -> FakeTopics:
    return FakeTopics(**dict.fromkeys(NAMES, 40))


def of_consumers() -> Iterable[Struct]:
    driver, epochs, owned = Driver(topics=topics()), dict.fromkeys(MEMBERS, 0), {}
    for _ in range(6):
        for member_id in MEMBERS:
            response = driver.consumer_heartbeat(
                member_id, epochs[member_id], topics=NAMES[::-1], owned=owned.get(member_id, {})
            )
            yield response
            epochs[member_id] = response.member_epoch
            if (given := response.assignment) is not None:
                owned[member_id] = {
                    driver.topics.name_of(one.topic_id): one.partitions
                    for one in given.topic_partitions
                }
    head, members = driver.consumers.described_with_members("g")
    yield from (head, *members)
    yield from (record.value for record in driver.log)


def of_shares() -> Iterable[Struct]:
    driver, epochs = ShareDriver(topics=topics()), dict.fromkeys(MEMBERS, 0)
    for _ in range(3):
        for member_id in MEMBERS:
            response = driver.beat(member_id, epochs[member_id], topics=NAMES[::-1])
            yield response
            epochs[member_id] = response.member_epoch
            driver.initialize()
    head, members = driver.shares.described_with_members("g")
    yield from (head, *members)
    yield from (record.value for record in driver.log)


def of_streams() -> Iterable[Struct]:
    driver = StreamsDriver(topics=topics())
    of_all = topology(*(subtopology(str(number), [name]) for number, name in enumerate(NAMES)))
    for member_id in MEMBERS:
        yield driver.beat(member_id, 0, topology=of_all).response
    for _ in range(6):
        for member_id in MEMBERS:
            member = driver.group.members[member_id]
            mine = member.assigned.without_epochs()
            yield driver.beat(member_id, member.epoch, owned=(mine.active, mine.standby)).response
    head, members = driver.streams.described_with_members("g")
    yield from (head, *members)
    yield from (record.value for record in driver.log)


def test_partitions_and_names_are_sorted_everywhere():
    def check(messages):
        found = [one for message in messages() for one in lists(message)]
        assert max(map(len, found)) >= 8
        assert [one for one in found if sorted(one) != list(one)] == []

    check_each([of_consumers, of_shares, of_streams], check)
