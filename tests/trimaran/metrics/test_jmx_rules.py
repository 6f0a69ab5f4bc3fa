"""The rules for the JMX exporter: the first that matches a bean names its metric as ours."""

import re

import pytest

from trimaran.metrics.jmx_rules import RULES
from trimaran.metrics.registry import SUBJECTS


def filled(text, match):
    return re.sub(r"\$(\d)", lambda number: match[int(number[1])], text)


def named(bean):
    """Returns the metric of a bean as the exporter writes it, with its labels."""
    for rule in RULES:
        if match := re.search(rule.pattern, bean):
            name = re.sub(r"\W", "_", filled(rule.name, match)).lower()
            return name, {filled(key, match): filled(text, match) for key, text in rule.labels}
    return None


GROUPS, SHARES = "group-coordinator-metrics", "share-coordinator-metrics"


@pytest.mark.parametrize(
    ("bean", "name", "labels"),
    [
        (f"{GROUPS}, protocol=share><>group-count", "group_coordinator_metrics_group_count", {}),
        (
            f"{GROUPS}><>share-group-rebalance-count",
            "group_coordinator_metrics_share_group_rebalance_total",
            {},
        ),
        (f"{SHARES}><>write-total", "share_coordinator_metrics_write_total", {}),
        (f"{SHARES}><>write-latency-avg", "share_coordinator_metrics_write_latency_avg", {}),
        (
            f"{SHARES}, topic=__share_group_state, partition=3><>last-pruned-offset",
            "share_coordinator_metrics_last_pruned_offset",
            {"topic": "__share_group_state", "partition": "3"},
        ),
        (
            "ShareGroupMetrics, name=RecordAcknowledgementsPerSec, ackType=Accept><>Count",
            "sharegroupmetrics_recordacknowledgements_total",
            {"ackType": "Accept"},
        ),
        (
            "ShareGroupMetrics, name=DeadLetterQueueRecordCount, group=g><>Count",
            "sharegroupmetrics_deadletterqueuerecordcount_total",
            {"group": "g"},
        ),
        (
            "SharePartitionMetrics, name=InFlightMessageCount, group=g, topic=t, partition=0><>Value",
            "sharepartitionmetrics_inflightmessagecount",
            {"group": "g", "topic": "t", "partition": "0"},
        ),
        (
            "ShareSessionCache, name=ShareSessionEvictionsPerSec><>Count",
            "sharesessioncache_sharesessionevictions_total",
            {},
        ),
    ],
)
def test_beans_of_share_groups_have_our_names(bean, name, labels):
    labels = labels or ({"protocol": "share"} if "protocol" in bean else {})
    assert named(f"kafka.server<type={bean}: 1") == (f"kafka_server_{name}", labels)
    ours = {line.name for tables in SUBJECTS.values() for table in tables for line in table}
    assert f"kafka_server_{name}".removesuffix("_total") in ours
