"""TxnOffsetCommit: the calls to the groups and to the verifier, and the code of each partition."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.calls import answered, call, finished
from tests.cluster.data_side import partition, topic, topic_id, topics_image
from trimaran.broker.handlers.batches import PARTITIONS_PER_BATCH
from trimaran.broker.handlers.txn_offset_commit import _committed, txn_offset_commit
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from trimaran.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

E = ErrorCode
PRODUCER = Producer(7, 3)
REQUEST = TxnOffsetCommitRequest(
    transactional_id="x",
    group_id="g",
    producer_id=PRODUCER.id,
    producer_epoch=PRODUCER.epoch,
    generation_id_or_member_epoch=4,
    member_id="m",
    group_instance_id="i",
    topics=[],
)
IMAGE = topics_image(topic("t", *[partition()] * 2), topic("u", partition()))


class Groups:
    """Groups that note their commits. Each is answered with the next outcome: the code of every partition, or the error
    of the decision or of its commit.
    """

    def __init__(self, *outcomes, verified_from=None):
        self.outcomes = list(outcomes)
        self.verified_from = verified_from
        self.asked = []
        self.commits = []

    def unverified_from(self, group_id, producer):
        self.asked.append((group_id, producer))
        return self.verified_from

    def partition_of(self, group_id):
        return {"g": 7}[group_id]

    def commit_offsets_in_transaction(self, commit, version, producer, verified_from):
        self.commits.append((commit, version, producer, verified_from))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, KafkaError):
            raise outcome
        pending = PendingResponse()
        if isinstance(outcome, Exception):
            pending.fail(KafkaError(*outcome.args))
        else:
            pending.complete(response(commit, outcome))
        return pending


class Verifier:
    """A verifier that answers each question with `code`."""

    def __init__(self, code):
        self.code = code
        self.asked = []

    def checking_offset_commit(self, *question):
        self.asked.append(question)
        yield None
        return self.code


def response(commit, code):
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=asked.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in asked.partitions
                ],
            )
            for asked in commit.topics
        ]
    )


def offset(index):
    return OffsetCommitRequestPartition(
        partition_index=index, committed_offset=9, committed_leader_epoch=2, committed_metadata="n"
    )


def commit_of(**partitions):
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=4,
        member_id="m",
        group_instance_id="i",
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=topic_id(name), partitions=offsets)
            for name, offsets in partitions.items()
        ],
    )


async def codes_of(groups, *admitted, version=4, verifier=None):
    """Commits the offsets of these topics; returns the codes of the partitions."""
    codes = {}
    named = [(IMAGE.by_name[name], offsets) for name, offsets in admitted]
    context = SimpleNamespace(groups=groups, verifier=verifier)
    await finished(_committed(REQUEST, named, context, call(REQUEST, version), codes))
    return codes


async def test_batches_fail_apart_in_order():
    many = [offset(index) for index in range(2 * PARTITIONS_PER_BATCH + 1)]
    groups = Groups(Exception(E.NOT_ENOUGH_REPLICAS), KafkaError(E.INVALID_TXN_STATE), E.NONE)
    codes = await codes_of(groups, ("t", many), ("u", [offset(0)]))
    cut = PARTITIONS_PER_BATCH
    assert groups.commits == [
        (commit_of(t=many[:cut]), 4, PRODUCER, None),
        (commit_of(t=many[cut : 2 * cut]), 4, PRODUCER, None),
        (commit_of(t=many[2 * cut :], u=[offset(0)]), 4, PRODUCER, None),
    ]
    by_batch = (E.COORDINATOR_NOT_AVAILABLE, E.INVALID_TXN_STATE, E.NONE)
    assert codes == {("t", index): by_batch[index // cut] for index in range(len(many))} | {
        ("u", 0): E.NONE
    }


@pytest.mark.parametrize(("version", "passed_on"), [(4, 11), (5, None)])
async def test_unverified_group_is_verified_first(version, passed_on):
    groups, verifier = Groups(E.NONE, verified_from=11), Verifier(E.NONE)
    assert await codes_of(groups, ("u", [offset(0)]), version=version, verifier=verifier) == {
        ("u", 0): E.NONE
    }
    assert groups.asked == [("g", PRODUCER)]
    assert verifier.asked == [("x", PRODUCER, ("__consumer_offsets", 7), version)]
    assert groups.commits == [(commit_of(u=[offset(0)]), version, PRODUCER, passed_on)]


async def test_group_outside_of_transaction_commits_nothing():
    groups, verifier = Groups(verified_from=0), Verifier(E.TRANSACTION_ABORTABLE)
    assert await codes_of(groups, ("u", [offset(0)]), verifier=verifier) == {
        ("u", 0): E.TRANSACTION_ABORTABLE
    }
    assert (groups.commits, len(verifier.asked)) == ([], 1)


@pytest.mark.parametrize("index", [2, 1])
async def test_only_known_partitions_are_committed(monkeypatch, index):
    """The group is not asked about a topic without known partitions."""
    monkeypatch.setattr("trimaran.broker.handlers.txn_offset_commit.loaded", lambda *_: iter(()))
    groups = Groups(E.NONE)
    metadata = SimpleNamespace(image=MetadataImage(topics=IMAGE))
    context = SimpleNamespace(groups=groups, metadata=metadata, authorizer=None)
    topics = [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=each,
                    committed_offset=9,
                    committed_leader_epoch=2,
                    committed_metadata="n",
                )
                for each in (7, index)
            ],
        )
        for name in ("t", "none")
    ]
    request = REQUEST.replace(topics=topics)
    response = await answered(txn_offset_commit, request, context, call(request, 4))
    is_known = index == 1
    commits = [(commit_of(t=[offset(1)]), 4, PRODUCER, None)]
    assert groups.commits == (commits if is_known else [])
    missing = E.UNKNOWN_TOPIC_OR_PARTITION
    assert response == TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=7, error_code=missing),
                    TxnOffsetCommitResponsePartition(partition_index=index, error_code=code),
                ],
            )
            for name, code in (("t", E.NONE if is_known else missing), ("none", missing))
        ]
    )
