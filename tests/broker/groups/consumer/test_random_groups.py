"""Seeded runs of many members of both protocols, with lost answers, silence, deaths and fail-overs.

After every step: a partition has one owner, no epoch goes back, another coordinator would load the state of this one
from the log. At the end all members send heartbeats until nothing changes: then all have reached their target and the
group is stable.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.broker.groups.driver import Driver, FakeTopics, topic_id
from trimaran.broker.groups.consumer import assigning
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings
from trimaran.broker.groups.heartbeating import assigning as heartbeating
from trimaran.wire.errors import ErrorCode

E = ErrorCode
STEPS = 250
CONVERGING_ROUNDS = 40


class Client:
    """Behaves like a consumer: it reports its partitions, and revokes partitions on the heartbeat after the request."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name, self.instance = name, instance
        self.epoch = 0
        self.owned: dict[str, set[int]] = {}
        self.topics: list[str] = []
        self.regex: str | None = None
        self.sent: list[str] | None = None
        self.reported: dict[str, set[int]] | None = None

    def beat(self, driver: Driver, *, hears: bool = True) -> None:
        topics = self.topics if self.epoch == 0 or self.sent != self.topics else None
        response = driver.consumer_heartbeat(
            self.name,
            self.epoch,
            topics=topics,
            owned={} if self.epoch == 0 else self._report(),
            instance=self.instance,
            regex=self.regex if self.epoch == 0 else None,
        )
        if not hears:
            self.reported = None
            return
        if isinstance(response, ErrorCode):
            assert response in (
                E.UNKNOWN_MEMBER_ID,
                E.FENCED_MEMBER_EPOCH,
                E.FENCED_INSTANCE_ID,
                E.UNRELEASED_INSTANCE_ID,
                E.GROUP_ID_NOT_FOUND,
            ), response
            self.epoch, self.owned, self.sent = 0, {}, None
            return
        self.sent = list(self.topics)
        assert response.member_epoch >= self.epoch or self.epoch == 0
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {
                topic_partition.topic_id.rstrip(b"-").decode(): set(topic_partition.partitions)
                for topic_partition in response.assignment.topic_partitions
            }

    def _report(self) -> dict[str, set[int]] | None:
        """Reports like librdkafka: only changes since the last response, and everything if that may be lost."""
        if self.reported == self.owned:
            return None
        self.reported = {topic: set(numbers) for topic, numbers in self.owned.items()}
        return self.owned


class Run:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.topics = FakeTopics(t=7, u=5)
        self.settings = ConsumerGroupSettings(
            assignment_interval_ms=self.random.choice([0, 0, 700]),
            assignors=self.random.choice([("uniform", "range"), ("range",)]),
        )
        self.driver = Driver(settings=self.settings, topics=self.topics)
        self.clients: list[Client] = []
        self.serial = 0
        self.epoch = -1
        self.target_epoch = -1

    def step(self) -> None:
        actions = [
            self.join,
            self.leave,
            self.die,
            self.lose,
            self.fail_over,
            self.wait,
            self.change,
        ]
        weights = [3, 1, 1, 3, 1, 2, 1]
        if self.clients and self.random.random() < 0.75:
            self.random.choice(self.clients).beat(self.driver)
        else:
            self.random.choices(actions, weights)[0]()
        self.check()

    def join(self) -> None:
        if len(self.clients) >= 8:
            return
        self.serial += 1
        instance = self.random.choice([None, None, "i", "j"])
        client = Client(f"m{self.serial}", instance)
        client.topics = self.random.choice([["t"], ["t", "u"], ["u"], ["t", "gone"]])
        client.regex = self.random.choice([None, None, "[tu]"])
        self.clients.append(client)
        client.beat(self.driver)

    def leave(self) -> None:
        if self.clients:
            client = self.clients.pop(self.random.randrange(len(self.clients)))
            epoch = -2 if client.instance and self.random.random() < 0.7 else -1
            self.driver.consumer_heartbeat(client.name, epoch, instance=client.instance)

    def die(self) -> None:
        if self.clients:
            self.clients.pop(self.random.randrange(len(self.clients)))

    def lose(self) -> None:
        if self.clients:
            self.random.choice(self.clients).beat(self.driver, hears=False)

    def fail_over(self) -> None:
        self.driver = Driver(
            log=self.driver.log, now=self.driver.now, settings=self.settings, topics=self.topics
        )

    def wait(self) -> None:
        self.driver.advance(self.random.choice([0.2, 1, 5, 20]))

    def change(self) -> None:
        if self.random.random() < 0.5:
            self.topics.set("t", self.random.randint(3, 9))
        elif self.clients:
            client = self.random.choice(self.clients)
            client.topics = self.random.choice([["t"], ["t", "u"], ["u"]])

    # -- invariants

    def check(self) -> None:
        self.driver.check_account()
        group = self.driver.consumer_group("g")
        if group is None:
            return
        assert group.epoch >= self.epoch
        assert group.assignment_epoch >= self.target_epoch
        self.epoch, self.target_epoch = group.epoch, group.assignment_epoch
        owners = Counter(
            (topic, partition)
            for member in group.members.values()
            for owned in (member.assigned, member.revoking)
            for topic, partitions in owned.items()
            for partition in partitions
        )
        assert not [key for key, count in owners.items() if count > 1]
        for topic, partition in owners:
            owner = group.owners[topic][partition]
            member = group.members[owner]
            assert any(
                partition in owned.get(topic, ()) for owned in (member.assigned, member.revoking)
            )
        assert owners.total() == sum(len(numbers) for numbers in group.owners.values())
        assert set(group.target) <= set(group.members)
        for member in group.members.values():
            assert member.epoch <= max(group.assignment_epoch, 0)
        for client in self.clients:
            known = group.members.get(client.name)
            if known is not None and client.epoch > 0:
                self.check_knows(known, client)

    def check_knows(self, member: ConsumerMember, client: Client) -> None:
        """Asserts that the coordinator knows all partitions that a client reads as its own, so that no other member
        gets them.
        """
        for topic, numbers in client.owned.items():
            wanted = topic_id(topic)
            known = {*member.assigned.get(wanted, ()), *member.revoking.get(wanted, ())}
            assert numbers <= known, (client.name, topic, numbers, str(member))

    def check_log(self) -> None:
        """Asserts that another coordinator would load this state."""
        group = self.driver.consumer_group("g")
        found = self.driver.replayed().of("consumer").get("g")
        assert (found is None) == (group is None)
        assert group is None or vars(found) == vars(group)

    def check_clients(self) -> None:
        """Asserts that two clients never read the same partition while the coordinator knows both in their current
        epochs.
        """
        group = self.driver.consumer_group("g")
        held: Counter[tuple[str, int]] = Counter()
        for client in self.clients:
            member = group.members.get(client.name)
            if member is not None and member.epoch == client.epoch:
                held.update((t, p) for t, numbers in client.owned.items() for p in numbers)
        assert not [key for key, count in held.items() if count > 1]

    def converge(self) -> None:
        for _ in range(CONVERGING_ROUNDS):
            self.driver.advance(2)
            for client in self.clients:
                client.beat(self.driver)
                self.check()
        if not self.clients:
            return
        self.check_clients()
        group = self.driver.consumer_group("g")
        assert group.state.value == "Stable", str(group)
        for member in group.members.values():
            has = {topic: frozenset(numbers) for topic, numbers in member.assigned.items()}
            assert has == group.target[member.id], str(group)
        wanted = {
            (topic.id, partition)
            for name in group.subscribed_topics()
            if (topic := self.topics.find(name)) is not None
            for partition in range(topic.partition_count)
        }
        assert {(t, p) for t, numbers in group.owners.items() for p in numbers} == wanted


@pytest.mark.parametrize("seed", range(20))
def test_group_under_churn_keeps_invariants(seed, monkeypatch):
    """In every second run the group counts as large: its target is computed in pieces while members join and leave."""
    if seed % 2:
        monkeypatch.setattr(assigning, "INLINE_SIZE_MAX", 0)
        monkeypatch.setattr(heartbeating, "RECORDS_PER_TICK", 2)
    run = Run(seed)
    for number in range(STEPS):
        run.step()
        if number % 25 == 0:
            run.check_log()
    # Only one client has the static name: the other ones keep getting the error.
    names = set()
    for client in list(run.clients):
        if client.instance is not None and client.instance in names:
            run.clients.remove(client)
        names.add(client.instance)
    run.driver.advance(120)
    run.converge()
    run.check_log()
