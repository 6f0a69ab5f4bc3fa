"""The cluster on which a third-party suite runs: ours or Apache Kafka's, from the same properties files."""

import contextlib

from tests.interop.controllers import controllers

KINDS = ("ours", "kafka")
CONTROLLER, BROKERS = 100, (11, 12, 13)
COPIES = "3"
# Configs that the suites' own scripts set on their clusters: librdkafka's with trivup, franz-go's in its workflow; and
# Kafka's defaults of heartbeats, because a busy machine delays them.
SETTINGS = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "auto.create.topics.enable": "true",
    "broker.heartbeat.interval.ms": "2000",
    "broker.rack": "RACK{id}",
    "broker.session.timeout.ms": "9000",
    "default.replication.factor": COPIES,
    "group.share.min.record.lock.duration.ms": "1000",
    "log.retention.bytes": "1000000000",
    "num.partitions": "4",
    "offsets.topic.replication.factor": COPIES,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": COPIES,
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": COPIES,
}
# Configs for clusters of one broker.
ALONE = {
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}


@contextlib.contextmanager
def cluster(
    kind, root, settings=None, protocol="", *, brokers=BROKERS, of_brokers=None, formatting=()
):
    """Starts one controller and brokers of a kind, each in its own rack; yields the `Controllers`. `of_brokers` are
    settings in the brokers' files only, `formatting` further options for formatting the controller.
    """
    alone = ALONE if len(brokers) == 1 else {}
    settings = {**SETTINGS, **alone, **(settings or {})}
    kinds = dict.fromkeys(brokers, kind)
    with controllers(root, {CONTROLLER: kind}, kinds, settings, protocol, of_brokers) as found:
        found.format(CONTROLLER, "--standalone", *formatting)
        found.start(CONTROLLER)
        found.start_brokers()
        yield found
