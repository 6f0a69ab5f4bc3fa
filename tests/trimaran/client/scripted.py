"""A client with scripted responses, and topics of a cluster of three brokers."""

from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.identity import Address
from trimaran.wire.messages import metadata

BROKERS = {1: Address("a", 1), 2: Address("b", 2), 3: Address("c", 3)}


class Routing:
    def __init__(self, leaders):
        self.nodes = dict(BROKERS)
        self.leaders = leaders

    def leader(self, partition):
        return self.leaders.get(partition)

    def locate(self, destination):
        assert destination in {CoordinatorNode("g"), CoordinatorNode("g", key_type=1)}
        return BROKERS[2]


class Client:
    """Returns scripted responses one after the other, and notes the requests; an exception is raised."""

    def __init__(self, *answers, leaders=(), topics=()):
        self.answers = list(answers)
        self.asked = []
        self.options = []
        self.routing = Routing(dict(leaders))
        self.topics = topics

    def call(self, destination, request, **options):
        self.asked.append((destination, request))
        self.options.append(options)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def refresh(self, topics=None):
        self.refreshed = topics
        return metadata.MetadataResponse(
            brokers=[], cluster_id="c", controller_id=1, topics=list(self.topics)
        )

    @property
    def request(self):
        return self.asked[-1][1]


def partition(index, leader, replicas, isr, code=0):
    return metadata.MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=0,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=[],
    )


def topic(name, *partitions, code=0):
    return metadata.MetadataResponseTopic(
        error_code=code, name=name, topic_id=bytes(16), partitions=list(partitions)
    )


def told(*topics):
    return metadata.MetadataResponse(
        brokers=[], cluster_id="c", controller_id=1, topics=list(topics)
    )


T = topic("t", partition(1, -1, [3, 1], []), partition(0, 1, [1, 2, 3], [1, 2]))
S = topic("s", partition(0, 2, [1, 2], [2, 1]))
