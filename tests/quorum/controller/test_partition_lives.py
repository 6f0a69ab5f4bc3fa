"""Random lives of a cluster, every step decided by the controller's functions: invariants after each step (C4, P4).

A naive model is kept as well: the index rebuilt from the image, and the replicas with all committed records.
"""

import random
from collections import Counter, deque

from tests.quorum.config_of import config_of
from tests.quorum.controller.states import eligible_leaders
from tests.quorum.metadata.build import (
    broker,
    changed_broker,
    config,
    features,
    image_of,
    partition,
    topic,
    uid,
)
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.controller.nodes.brokers import changes_of_new_incarnation, fence_broker
from trimaran.quorum.controller.partitions.alter_partition import alter_partition
from trimaran.quorum.controller.partitions.broker_changes import changes_with, changes_without
from trimaran.quorum.controller.partitions.elections import (
    balance_leaders,
    elect_leaders,
    elect_unclean,
)
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.controller.partitions.reassignments import alter_reassignments
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import NO_LEADER, Provenance
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.wire.messages.broker_registration import BrokerRegistrationRequest
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest
from trimaran.wire.records.topics import ClearElrRecord, RemoveTopicRecord

IDS = (1, 2, 3, 4, 5)
CONFIG = config_of()
SEEN: Counter[str] = Counter()


class Life:
    """One topic of three partitions on five brokers."""

    def __init__(self, *, elr: bool, unclean: bool, min_isr: int) -> None:
        first = image_of(
            features(),
            *([eligible_leaders()] if elr else []),
            *(broker(i) for i in IDS),
            topic("t", 1),
            config("min.insync.replicas", str(min_isr)),
            config("unclean.leader.election.enable", str(unclean).lower()),
            *(partition(1, i, [1 + (i + k) % 5 for k in range(3)]) for i in range(3)),
        )
        self.elr, self.unclean, self.min_isr = elr, unclean, min_isr
        self.image, self.index = first, PartitionIndex.of(first.topics)
        self.epochs = {i: 100 + i for i in IDS}

    @property
    def state(self) -> ControllerState:
        return ControllerState(self.image, self.index, CONFIG)

    @property
    def partitions(self):
        return self.image.topics.by_name["t"].partitions

    def write(self, records, *, may_lose=False, joining=()):
        before = self.partitions
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(Provenance(1, 1, 1))
        deque(self.index.apply(delta.topics, self.image.topics), maxlen=0)
        self.check(before, may_lose=may_lose, joining=joining)

    # --- steps

    def fence(self, broker_id, _choice):
        found = self.image.cluster.brokers[broker_id]
        if not found.fenced:
            for place in list(self.index.in_sync(broker_id))[
                :1
            ]:  # in batches, as the controller does
                self.write(changes_without(self.state, broker_id, keys=[place]))
            self.write(at_once(fence_broker(self.state, found)))

    def unfence(self, broker_id, _choice):
        if self.image.cluster.brokers[broker_id].fenced:
            epoch = self.epochs[broker_id]
            records = changes_with(self.state, broker_id)
            self.write([changed_broker(broker_id, epoch=epoch, fenced=-1), *records])

    def leave(self, broker_id, _choice):
        found = self.image.cluster.brokers[broker_id]
        if found.active:
            record = changed_broker(
                broker_id, epoch=self.epochs[broker_id], in_controlled_shutdown=1
            )
            self.write([record, *changes_without(self.state, broker_id)])

    def restart(self, broker_id, choice):
        clean = choice % 2 == 0
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="",
            incarnation_id=uid(900 + choice),
            listeners=[],
            features=[],
            rack=None,
            previous_broker_epoch=self.epochs[broker_id] if clean else -1,
        )
        records = changes_of_new_incarnation(request, self.state)
        self.epochs[broker_id] += 1000
        news = broker(broker_id, epoch=self.epochs[broker_id], fenced=True)
        self.write([*records, news])
        if self.elr and not clean:
            SEEN["unclean restarts"] += 1
            for found in self.partitions.values():
                assert broker_id not in found.isr, "P4"
                assert broker_id not in found.elr, "P4"

    def alter(self, broker_id, choice):
        """Lets the leader propose any replicas, including proposals that must be refused."""
        index = choice % 3
        found = self.partitions[index]
        isr = [
            replica
            for k, replica in enumerate(found.replicas)
            if choice >> k & 1 or replica == found.leader
        ]
        request = AlterPartitionRequest(
            broker_id=found.leader,
            broker_epoch=self.epochs.get(found.leader, -1),
            topics=[
                AlterPartitionRequestTopicData(
                    topic_id=uid(1),
                    partitions=[
                        AlterPartitionRequestPartitionData(
                            partition_index=index,
                            leader_epoch=found.leader_epoch,
                            partition_epoch=found.partition_epoch,
                            new_isr_with_epochs=[
                                BrokerState(broker_id=replica, broker_epoch=self.epochs[replica])
                                for replica in isr
                            ],
                        )
                    ],
                )
            ],
        )
        if found.leader != NO_LEADER:
            # Its proposal may complete a move, and a replica that it found in sync then leads at once.
            self.write(at_once(alter_partition(request, self.state)).records, joining=isr)

    def reassign(self, broker_id, choice):
        target = list(
            dict.fromkeys(1 + (broker_id + k * (1 + choice % 4)) % 5 for k in range(1 + choice % 4))
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="t",
                    partitions=[
                        ReassignablePartition(
                            partition_index=choice % 3, replicas=None if choice % 5 == 0 else target
                        )
                    ],
                )
            ]
        )
        self.write(at_once(alter_reassignments(request, self.state)).records)

    def balance(self, _broker_id, _choice):
        self.write(balance_leaders(self.state, list(self.index.imbalanced)))

    def elect(self, _broker_id, choice):
        kind = choice % 2
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        records = at_once(elect_leaders(request, self.state)).records
        self.write(records, may_lose=kind == 1)

    def look(self, _broker_id, _choice):
        self.write(elect_unclean(self.state, list(self.index.leaderless)))

    def clear(self, _broker_id, _choice):
        if self.elr and all(partition.isr for partition in self.partitions.values()):
            self.write([ClearElrRecord(topic_name="t")])

    # --- invariants

    def check(self, before, **allowed):
        assert self.index == PartitionIndex.of(self.image.topics)
        for index, new in self.partitions.items():
            self.check_partition(new)
            self.check_step(before[index], new, **allowed)

    def check_partition(self, one):
        brokers = self.image.cluster.brokers
        isr, elr = set(one.isr), set(one.elr)
        assert one.replicas
        assert len(set(one.replicas)) == len(one.replicas) == len(one.directories)
        assert len(isr) == len(one.isr)
        assert isr <= set(one.replicas)
        assert not isr & elr, "KIP-966"
        assert elr <= set(one.replicas)
        if one.leader != NO_LEADER:
            SEEN["led"] += 1
            assert one.leader in isr
            assert brokers[one.leader].active, "C4"
        if len(isr) > 1 or one.leader != NO_LEADER:
            # Without the feature a last member stays in the ISR of a leaderless partition.
            assert all(brokers[i].active for i in isr), "C4"
        assert isr or self.elr, "an ISR is empty only where others can be eligible"
        if elr:
            SEEN["eligible"] += 1
            assert len(isr) < self.min_isr, "who leaves a large ISR lacks what that commits"
        assert self.elr or not elr
        assert set(one.adding) <= set(one.replicas)
        assert set(one.removing) <= set(one.replicas)
        assert not set(one.adding) & set(one.removing)

    def check_step(self, old, new, *, may_lose, joining):
        if old == new:
            return
        assert new.partition_epoch > old.partition_epoch
        assert new.leader_epoch >= old.leader_epoch
        if new.leader != old.leader:
            SEEN["elections"] += 1
            assert new.leader_epoch > old.leader_epoch
        if not set(old.replicas) <= set(new.replicas):
            assert new.leader_epoch > old.leader_epoch, "who was removed is fenced"
        unclean = new.leader != NO_LEADER and new.leader not in {*old.isr, *old.elr, *joining}
        if unclean:
            SEEN["unclean"] += 1
            assert new.isr == (new.leader,)
            if old.leader == NO_LEADER or new.leader_recovery_state != old.leader_recovery_state:
                assert new.leader_recovery_state == 1
            known = self.elr and old.last_known_elr == (new.leader,)
            assert self.unclean or may_lose or known, "nobody out of sync leads unless allowed"


STEPS = (
    "fence",
    "fence",
    "unfence",
    "leave",
    "restart",
    "alter",
    "reassign",
    "balance",
    "elect",
    "look",
    "clear",
)


LIVES, STEPS_OF_A_LIFE = 150, 40


def live(seed):
    prng = random.Random(seed)
    life = Life(elr=seed % 2 == 0, unclean=seed % 3 == 0, min_isr=1 + seed % 4 % 3)
    steps = []
    for _ in range(STEPS_OF_A_LIFE):
        steps.append((prng.choice(STEPS), prng.choice(IDS), prng.randrange(64)))
        name, broker_id, choice = steps[-1]
        try:
            getattr(life, name)(broker_id, choice)
        except AssertionError as error:
            raise AssertionError(f"{error}\nseed {seed}, steps {steps}") from error
    delta = MetadataDelta(life.image)
    delta.replay(RemoveTopicRecord(topic_id=uid(1)))
    deque(life.index.apply(delta.topics, delta.topics.apply()), maxlen=0)
    assert life.index == PartitionIndex()


def test_cluster_invariants_hold_through_random_lives():
    """A run without events proves nothing, so the examined cases are counted."""
    for seed in range(LIVES):
        live(seed)
    for what in ("led", "eligible", "elections", "unclean", "unclean restarts"):
        assert SEEN[what] > 20, (what, SEEN)
