"""Transactional ids of tasks in one worker of Spark."""

import re

from trimaran.spark.sink.exactly_once import task_ids
from trimaran.spark.sink.exactly_once.protocol import ProducerLease
from trimaran.spark.sink.exactly_once.task_ids import QUERIES, TASK_ID, TaskIds
from trimaran.wire.identity import ProducerEpoch, ProducerId


def lease(epoch, producer=1):
    return ProducerLease(ProducerId(producer), ProducerEpoch(epoch))


def test_ids_are_used_again_by_later_batches():
    ids = TaskIds()
    first = [ids.next("q", lease(1)) for _ in range(3)]
    assert len(set(first)) == 3
    assert all(re.fullmatch("q" + TASK_ID, name) for name in first)
    assert [ids.next("q", lease(2)) for _ in range(3)] == first
    assert [ids.next("q", lease(0, producer=2)) for _ in range(3)] == first


def test_queries_that_alternate_use_ids_again():
    ids = TaskIds()
    found = {
        ids.next(name, lease(epoch, producer))
        for epoch in range(9)
        for name, producer in (("a", 1), ("b", 2), ("a", 1), ("b", 2))
    }
    assert len(found) == 4


def test_late_task_of_known_batch_has_own_id():
    ids = TaskIds()
    ids.next("q", lease(1))
    newest = {ids.next("q", lease(2)) for _ in range(4)}
    late = {ids.next("q", lease(1)) for _ in range(2)}
    assert len(late) == 2
    assert not late & newest


def test_late_task_of_unknown_batch_has_own_id():
    ids = TaskIds()
    newest = ids.next("q", lease(2))
    late = ids.next("q", lease(1))
    assert late != newest
    assert ids.next("q", lease(2)) not in {late, newest}


def test_forgotten_query_gets_ids_of_its_own():
    ids = TaskIds()
    before = ids.next("q", lease(1))
    for number in range(QUERIES):
        ids.next(f"q{number}", lease(1))
    assert ids.next("q", lease(1)) != before


def test_forked_worker_has_ids_of_its_own(monkeypatch):
    ids = TaskIds()
    before = ids.next("q", lease(1))
    monkeypatch.setattr(task_ids.os, "getpid", lambda: -1)
    assert ids.next("q", lease(1)) != before
