"""Metrics of share groups: what a scrape shows of real share partitions and of a real share coordinator."""

from types import SimpleNamespace

import pytest
import trio

from tests.broker.handlers.test_share_fetch import first_fetch, settle
from tests.broker.share_state.rig import open_rig
from tests.broker.share_state.test_coordinator import KEY, write_some
from tests.broker.sharing.rig import sharing_rig
from tests.broker.sharing.test_dead_letter_queues import queue_rig
from trimaran.broker.sharing.counts import ShareCounts
from trimaran.metrics.families import families
from trimaran.metrics.shares import (
    SHARE_SHARD_METRICS,
    SHARE_STATE_METRICS,
    share_metrics,
)
from trimaran.metrics.topics import topic_metrics
from trimaran.wire.errors import ErrorCode

SHARES = "kafka_server_sharegroupmetrics_"
PARTITIONS = "kafka_server_sharepartitionmetrics_"
SESSIONS = "kafka_server_sharesessioncache_"


def samples(found):
    """Returns values by the name without its prefix, and by the labels' values."""
    return {
        (sample.name.removeprefix("kafka_server_"), *sample.labels.values()): sample.value
        for family in found
        if family is not None
        for sample in family.samples
    }


def scraped(rig):
    none = SimpleNamespace(
        writes=0,
        write_times=rig.counts.load_times,
        runtime=SimpleNamespace(epochs=[], spec=SimpleNamespace(load_times=rig.counts.load_times)),
    )
    return samples(share_metrics(SimpleNamespace(sharing=rig.sharing, coordinator=none)))


def chosen(found, *prefixes):
    return {key: value for key, value in found.items() if key[0].startswith(prefixes)}


async def test_acknowledgements_count_by_type(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await first_fetch(rig)
        await rig.acknowledged(2, {0: [(0, 3, [1]), (4, 6, [2, 3, 0])]})
        await rig.acknowledged(3, {0: [(4, 4, [1])]})  # refused, since the record was released
        await rig.acknowledged(4, {0: [(7, 9, [4])]}, is_renew_ack=True)
        assert chosen(scraped(rig), "sharegroupmetrics_recordack") == {
            ("sharegroupmetrics_recordacknowledgements_total", "Accept"): 4,
            ("sharegroupmetrics_recordacknowledgements_total", "Release"): 1,
            ("sharegroupmetrics_recordacknowledgements_total", "Reject"): 1,
            ("sharegroupmetrics_recordacknowledgements_total", "Renew"): 3,
        }


async def test_share_partitions_show_records_in_flight(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(10)
        await first_fetch(rig)
        rig.harness.now += 31
        rig.sharing._timer_changed.set()
        await settle()
        await rig.fetched(2, max_records=1, share_acquire_mode=1)
        found = scraped(rig)
        assert chosen(found, "sharepartitionmetrics") == {
            ("sharepartitionmetrics_inflightmessagecount", "g", "t", "0"): 10,
            ("sharepartitionmetrics_inflightmessagecount", "g", "t", "1"): 0,
            ("sharepartitionmetrics_inflightbatchcount", "g", "t", "0"): 1,
            ("sharepartitionmetrics_inflightbatchcount", "g", "t", "1"): 0,
            ("sharepartitionmetrics_acquisitionlocktimeout_total", "g", "t", "0"): 10,
            ("sharepartitionmetrics_acquisitionlocktimeout_total", "g", "t", "1"): 0,
        }
        assert found["sharegroupmetrics_partitionloadtimems_count",] == 2
        assert found["sharegroupmetrics_topicpartitionsacquiretimems_count", "g"] == 3


async def test_sessions_and_waiting_fetches_are_shown(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await rig.fetched(0, 0)
        await settle()
        waiting = rig.start_fetch(1, max_wait_ms=60_000)
        names = ("sharesessioncache", "delayed")
        before = {
            ("sharesessioncache_sharesessionscount",): 1,
            ("sharesessioncache_sharepartitionscount",): 1,
            ("sharesessioncache_sharesessionevictions_total",): 0,
            ("delayedoperationpurgatory_numdelayedoperations", "ShareFetch"): 1,
            ("delayedsharefetchmetrics_expires_total",): 0,
        }
        assert chosen(scraped(rig), *names) == before
        rig.produce(1)
        await waiting.finish()
        rig.connection.mark_closed()
        await settle()
        assert chosen(scraped(rig), *names) == {
            ("sharesessioncache_sharesessionscount",): 0,
            ("sharesessioncache_sharepartitionscount",): 0,
            ("sharesessioncache_sharesessionevictions_total",): 1,
            ("delayedoperationpurgatory_numdelayedoperations", "ShareFetch"): 0,
            ("delayedsharefetchmetrics_expires_total",): 0,
        }


async def test_fetch_whose_time_is_up_counts(tmp_path, autojump_clock):
    async with sharing_rig(tmp_path) as rig:
        await rig.fetched(0, 0)
        await rig.fetched(1, max_wait_ms=1_000)
        assert scraped(rig)["delayedsharefetchmetrics_expires_total",] == 1


async def test_requests_of_share_groups_count_by_topic(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(2)
        await first_fetch(rig)
        for epoch in (2, 3):  # refused the second time
            await rig.acknowledged(epoch, {0: [(1, 1, [1])]})
        traffic = rig.harness.partitions.traffic
        found = samples(topic_metrics(traffic))
        assert {key[0]: value for key, value in found.items() if "share" in key[0] and key[1:]} == {
            "brokertopicmetrics_totalsharefetchrequests_total": 2,
            "brokertopicmetrics_failedsharefetchrequests_total": 0,
            "brokertopicmetrics_totalshareacknowledgementrequests_total": 2,
            "brokertopicmetrics_failedshareacknowledgementrequests_total": 1,
        }


@pytest.mark.parametrize(
    ("enabled", "refusal", "counts"),
    [
        ("true", None, (2, 1, 0)),
        ("true", ErrorCode.TOPIC_AUTHORIZATION_FAILED, (0, 1, 1)),
        ("false", None, (0, 0, 0)),  # records that were given up before any request to the queue
    ],
)
async def test_dead_letters_count_by_group(tmp_path, enabled, refusal, counts):
    async with queue_rig(tmp_path) as rig:
        rig.add_queue(enabled=enabled)
        rig.produce(5)
        await rig.acquire()
        rig.refusal = refusal
        await rig.reject(1, 2)
        names = ("recordcount", "totalproducerequests", "failedproducerequests")
        shown = {
            (f"sharegroupmetrics_deadletterqueue{name}_total", *labels): count
            for name, count in zip(names, counts, strict=True)
            for labels in (("g",), ())
        }
        assert chosen(scraped(rig), "sharegroupmetrics_deadletter") == shown
        rig.connection.mark_closed()
        await settle()
        totals = {key: count for key, count in shown.items() if not key[1:]}
        assert chosen(scraped(rig), "sharegroupmetrics_deadletter") == totals


def test_counts_of_unknown_groups_are_in_the_sum():
    counts = ShareCounts()
    counts.of("g").letters += 1
    counts.begin("g")
    counts.of("g").letters += 2
    counts.begin("g")
    assert [(name, each.letters) for name, each in counts.groups()] == [("g", 2)]
    counts.end("g")
    counts.end("g")
    assert list(counts.groups()) == []
    assert sum(each.letters for each in counts.everything()) == 3


async def test_share_coordinator_shows_writes_and_partitions(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        await write_some(rig.shares)
        await rig.shares.initialize(KEY, 1, 200).wait()
        await trio.sleep(301)
        found = samples(families(SHARE_STATE_METRICS, rig.shares))
        found |= samples(families(SHARE_SHARD_METRICS, rig.shares.runtime))
        times = {
            key: value for key, value in found.items() if "time" in key[0] or "laten" in key[0]
        }
        assert all(value >= 0 for value in times.values())
        assert len(times) == 4
        pruned = rig.leader.log.log_start_offset
        assert {key: value for key, value in found.items() if key not in times} == {
            ("share_coordinator_metrics_write_total",): 1,
            ("share_coordinator_metrics_last_pruned_offset", "__share_group_state", "0"): pruned,
            ("share_coordinator_metrics_num_partitions", "loading"): 0,
            ("share_coordinator_metrics_num_partitions", "active"): 1,
            ("share_coordinator_metrics_num_partitions", "failed"): 0,
        }
