"""Clusters of three controllers and three brokers of both kinds at the default features of Kafka 4.4, with groups of
every kind and transactions, while coordinators and the active controller are killed. Each killed broker leads the
internal topics, and its successor is of the other kind, so that each kind loads the records of the other. There are a
few kills by default, and twenty with `./dev interop --kills 20`.
"""

import re

import pytest

from tests.interop import apache_kafka, java_programs
from tests.interop.controllers import controllers
from tests.interop.mixed_kills import Kills
from tests.interop.mixed_quorum import caught_up, end_of, until
from tests.interop.mixed_traffic import PARTITIONS, Groups, Source, check, create_topics
from trimaran.log.inspection.reader import scan_batches

FIRST, SECOND, THIRD = 11, 12, 13
DELIVERY_LIMIT = 10  # a record is not archived, however many leaders are killed
COMPACTED = ("cleanup.policy=compact",)
# There are few records, so that loading all of them repeatedly is quick.
INTERNAL = {
    "__consumer_offsets": COMPACTED,
    "__transaction_state": COMPACTED,
    "__share_group_state": ("cleanup.policy=delete", "retention.ms=-1"),
}
SETTINGS = {
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": PARTITIONS,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.num.partitions": PARTITIONS,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.num.partitions": PARTITIONS,
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "group.share.delivery.count.limit": DELIVERY_LIMIT,
}
# Lines in the logs of either kind about a partition that a coordinator has loaded.
LOADED = {
    "ours": re.compile(r'"coordinator.loaded", "fields": {"shard": "(\w+)-\d+"'),
    "kafka": re.compile(
        r"(?:Finished loading of|Completed loading transaction) metadata from (\w+)-\d+"
    ),
}
KINDS = {"ours": ("ours", "kafka", "kafka"), "kafka": ("kafka", "ours", "ours")}


def log_of(cluster, node, name):
    """Returns the bytes of a partition's log by the offset of their batches, and the end of the log. A log whose
    records are all deleted has an empty segment, named by its end.
    """
    found, end = {}, 0
    for path in sorted((cluster.directory(node) / name).glob("*.log")):
        end = int(path.stem)
        for _, batch in scan_batches(path):
            found[batch.base_offset] = bytes(batch.buffer)
            end = batch.next_offset
    return found, end


def check_equal_logs(cluster):
    """Checks that every partition has the same bytes on all brokers, as far as they have kept them, and the same end;
    returns their number.
    """
    names = {
        path.name
        for i in cluster.brokers
        for path in cluster.directory(i).iterdir()
        if path.is_dir() and not path.name.startswith("__cluster_metadata")
    }
    size = 0
    for name in sorted(names):
        (first, end), *others = (log_of(cluster, i, name) for i in cluster.brokers)
        for other, end_of_other in others:
            both = first.keys() & other.keys()
            assert [first[k] for k in sorted(both)] == [other[k] for k in sorted(both)], name
            assert end == end_of_other, name
        size += sum(map(len, first.values()))
    return size


def check_equal_metadata(cluster, high_watermark):
    """Checks that the metadata logs of all nodes are equal up to the shortest end; returns the number of bytes."""
    nodes = [*cluster.kinds, *cluster.brokers]
    size = min(end_of(cluster, i, high_watermark) for i in nodes)
    first, *others = (cluster.log(i)[:size] for i in nodes)
    assert all(other == first for other in others), f"logs differ in {cluster.root}"
    return size


def check_loaded(cluster):
    """Checks that brokers of each kind loaded partitions of each internal topic."""
    for kind, pattern in LOADED.items():
        logs = [
            (cluster.root / f"{i}.log").read_text()
            for i, of in cluster.brokers.items()
            if of == kind
        ]
        assert {topic for log in logs for topic in pattern.findall(log)} == INTERNAL.keys(), kind


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    if reason := java_programs.why_not():
        pytest.skip(reason)
    return tmp_path_factory.mktemp("classes")


@pytest.mark.client("Java", "transactions", version=apache_kafka.VERSION)
@pytest.mark.parametrize("odd_broker", ["ours", "kafka"])
@pytest.mark.parametrize("odd_controller", ["ours", "kafka"])
def test_mixed_nodes_neither_lose_nor_duplicate_records(
    tmp_path, classes, odd_controller, odd_broker, kills
):
    quorum = dict(enumerate(KINDS[odd_controller], 1))
    brokers = dict(zip((FIRST, SECOND, THIRD), KINDS[odd_broker], strict=True))
    with controllers(tmp_path, quorum, brokers, of_brokers=SETTINGS) as cluster:
        for i in quorum:
            cluster.format(i, "--initial-controllers", cluster.initial)
            cluster.start(i)
        until(lambda: caught_up(cluster), "the quorum begins")
        cluster.start_brokers()
        bootstrap = cluster.bootstrap(*brokers)
        create_topics(bootstrap, INTERNAL, f"{FIRST}:{SECOND}:{THIRD}")
        source = Source(bootstrap)
        killing = Kills(cluster, INTERNAL, THIRD, source)
        with Groups(tmp_path, classes, bootstrap) as groups:
            killing.run(kills)
            source.close()
            killing.wait_whole()
            copies = groups.wait_for(source.acked)
            said = groups.close()
            share_lines = groups.lines("ShareMembers")
        check(source, copies, share_lines, DELIVERY_LIMIT)
        high_watermark = until(lambda: caught_up(cluster), "all follow").high_watermark
        killing.wait_whole()
        cluster.stop()
        check_loaded(cluster)
        compared = check_equal_metadata(cluster, high_watermark), check_equal_logs(cluster)
    print(f"{len(source.acked)} inputs, {dict(killing.count)}, {dict(killing.takeovers)}, {said}, "
          f"equal bytes of metadata and topics {compared}")  # fmt: skip
    for role in ("coordinator", "controller"):
        took = killing.takeovers
        assert min(took[role, "ours", "kafka"], took[role, "kafka", "ours"]) > 0
