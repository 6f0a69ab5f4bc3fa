"""SIGKILL for coordinators and the active controller of a mixed cluster in turn, each with a successor that is, where
possible, of the other kind.
"""

from collections import Counter

from tests.interop.mixed_quorum import caught_up, kill_leader, until
from tests.librdkafka import AdminClient

SECONDS_BETWEEN = 5.0
CALL_SECONDS = 60


def topics_of(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=CALL_SECONDS).topics


class Committed:
    """The growth of the metadata log, in which an idle controller writes a record every half second."""

    def __init__(self, cluster):
        self._cluster = cluster

    def wait_for(self, more):
        """Waits until this number of further records is committed."""
        wanted = self._high_watermark() + more
        until(lambda: self._high_watermark() >= wanted, "records are committed")

    def _high_watermark(self):
        return until(self._cluster.quorum, "the quorum is described").high_watermark


def most_of(leaders):
    return leaders.most_common(1)[0][0]


class Kills:
    """Kills in a cluster whose internal topics `internal` are led by one broker, or by more if replicas have fallen
    behind; `spare` is the last replica of their partitions. `takeovers` counts by role and kinds, that of the victim
    and of its successor; `count` by role.
    """

    def __init__(self, cluster, internal, spare, traffic):
        self._cluster, self._internal, self._spare = cluster, internal, spare
        self._traffic = traffic
        self._brokers = set(cluster.brokers)
        self.takeovers, self.count = Counter(), Counter()

    def run(self, number):
        """Kills a coordinator and the active controller in turn; every fifth broker is `spare`, which leads only other
        topics.
        """
        for turn in range(number):
            self.wait_whole()
            self._traffic.send_for(SECONDS_BETWEEN)
            if turn % 2:
                self._kill_controller()
            else:
                self._kill_broker(is_spare=turn % 10 == 8)

    def _kill_controller(self):
        leader = until(lambda: caught_up(self._cluster), "all follow").leader_id
        kinds = self._cluster.kinds
        heirs = {kind for i, kind in kinds.items() if i != leader}
        heir = min(heirs, key=lambda kind: (kind == kinds[leader], kind))
        self.count["controller"] += 1
        kill_leader(self._cluster, Committed(self._cluster), leader, heir)
        now = until(self._cluster.quorum, "the quorum is described").leader_id
        self.takeovers["controller", kinds[leader], kinds[now]] += 1

    def _kill_broker(self, is_spare):
        leader = most_of(self.partitions(self._brokers)[0])
        victim = self._spare if is_spare else leader
        self._cluster.kill(victim)
        self.count["broker" if is_spare else "coordinator"] += 1
        left = self._brokers - {victim}
        gone = {victim, -1}
        until(lambda: not self.partitions(left)[0].keys() & gone, "another leader")
        now = most_of(self.partitions(left)[0])
        if now != leader:
            kinds = self._cluster.brokers
            self.takeovers["coordinator", kinds[leader], kinds[now]] += 1
        self._traffic.send_for(SECONDS_BETWEEN / 2)
        self._cluster.start(victim)

    def wait_whole(self):
        until(lambda: self.partitions(self._brokers)[1], "all replicas are in sync")

    def partitions(self, brokers):
        """Returns the number of partitions of internal topics by leader, and whether all replicas of all partitions are
        in sync.
        """
        topics = topics_of(self._cluster.bootstrap(*brokers))
        leaders = Counter(
            partition.leader
            for name in self._internal
            for partition in topics[name].partitions.values()
        )
        are_whole = all(
            set(partition.isrs) == self._brokers
            for topic in topics.values()
            for partition in topic.partitions.values()
        )
        return leaders, are_whole
