"""A list of partitions passes the stages of Produce; an error removes only its own partition."""

import pytest
import trio

from tests.broker.batches import batch
from tests.broker.calls import Paused, call, finished, started, through_wire
from tests.broker.producing.stages import append_now, settle, validate_now
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.broker.producing.partition_append import resolve
from trimaran.broker.producing.validate import authorize, may_use_transactional_id
from trimaran.broker.producing.verify import NOT_IN_TRANSACTION, must_verify, verify
from trimaran.log.producers.marker import EndMarker
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.transport.scheduling.effects import Blocking

VERSION = 13
ACKS_LEADER = 1


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()), topic("secret", partition()))
    return harness


def resolved(harness, *named):
    """Returns a request; each of `named` is a topic and the records of its partitions."""
    topics = [
        TopicProduceData(
            topic_id=topic_id(name),
            partition_data=[
                PartitionProduceData(index=i, records=record) for i, record in enumerate(records)
            ],
        )
        for name, *records in named
    ]
    message = ProduceRequest(acks=ACKS_LEADER, timeout_ms=0, topic_data=topics)
    return started(resolve(through_wire(message, VERSION), harness.partitions))


def go_through(harness, appends, may_write=lambda _topic: True, transactional_id=None):
    """Appends all batches, except for those that a coordinator must verify."""
    started(authorize(appends, may_write))
    validate_now(appends, harness.partitions)
    asked = unverified(appends, transactional_id)
    append_now([part for part in appends if part not in asked], ACKS_LEADER, harness)
    return asked


def unverified(appends, transactional_id):
    return [
        part
        for part in appends
        if not part.failed
        and part.batches
        and part.batches[0].is_transactional
        and must_verify(part, transactional_id)
    ]


def outcomes(response):
    return [
        [
            (
                partition_response.index,
                ErrorCode.of(partition_response.error_code).name,
                partition_response.base_offset,
            )
            for partition_response in found.partition_responses
        ]
        for found in response.responses
    ]


async def test_partitions_are_answered_in_place(harness):
    response, appends = resolved(
        harness, ("t", batch(b"a"), b"no batch"), ("nowhere", batch(b"b")), ("secret", batch(b"c"))
    )
    assert [append.key for append in appends] == [
        ("t", 0),
        ("t", 1),
        ("", 0),
        ("secret", 0),
    ]
    go_through(harness, appends)
    assert outcomes(response) == [
        [(0, "NONE", 0), (1, "INVALID_RECORD", -1)],
        [(0, "UNKNOWN_TOPIC_ID", -1)],
        [(0, "NONE", 0)],
    ]


async def test_unauthorized_writer_learns_nothing(harness):
    """The writer learns neither whether the partition exists nor whether the records are valid, and no log is
    created.
    """
    response, appends = resolved(harness, ("secret", b"no batch", batch(b"b")), ("t", batch(b"c")))
    go_through(harness, appends, lambda name: name != "secret")
    denied = "TOPIC_AUTHORIZATION_FAILED"
    assert outcomes(response) == [[(0, denied, -1), (1, denied, -1)], [(0, "NONE", 0)]]
    assert harness.partitions.find(TopicPartition("secret", 0)).open_log is None


async def test_unreplicated_records_time_out(harness):
    """No record is flushed, so none is committed."""
    response, appends = resolved(harness, ("t", batch(b"v")))
    go_through(harness, appends)
    [one] = appends
    assert not one.failed
    await settle(appends)
    assert one.failed
    assert outcomes(response) == [[(0, "REQUEST_TIMED_OUT", -1)]]


def transactional(epoch=0, sequence=0, producer_id=7):
    return batch(
        b"a",
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


async def test_transactional_batch_without_id_is_refused_alone(harness):
    response, appends = resolved(harness, ("t", transactional(), batch(b"b")))
    assert go_through(harness, appends) == [], "no coordinator is asked about it"
    refused = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert outcomes(response) == [[(0, refused, -1), (1, "NONE", 0)]]
    assert harness.leader("t", 0).log.log_end_offset == 0


async def test_request_without_id_permits_no_transactional_batch(harness):
    """CVE-2018-17196: without an id the right to use it cannot be checked."""
    asked = call(ProduceRequest(acks=1, timeout_ms=0, topic_data=[]), VERSION)
    for records, is_allowed in (((batch(b"a"), transactional()), False), ((batch(b"a"),), True)):
        _, appends = resolved(harness, ("t", *records))
        assert may_use_transactional_id(None, appends, harness.contexts.data, asked) is is_allowed
        assert may_use_transactional_id("x", appends, harness.contexts.data, asked)


class Coordinator:
    """A coordinator that gives the scripted answer for all partitions; `meanwhile` runs before the answer arrives. If
    it `knows` the transaction, it answers immediately.
    """

    def __init__(self, code=ErrorCode.NONE, meanwhile=lambda: None, *, knows=False):
        self.code = code
        self.knows = knows
        self.meanwhile = meanwhile
        self.asked = []

    def checking_produce(self, transactional_id, producer, partitions, version):
        self.asked.append((transactional_id, producer, sorted(partitions), version))
        if not self.knows:
            yield Blocking(trio.lowlevel.checkpoint)
        self.meanwhile()
        return dict.fromkeys(partitions, self.code)


async def verified(harness, coordinator, *named, version=VERSION):
    """Verifies those that were not decided immediately, and appends them then."""
    response, appends = resolved(harness, *named)
    asked = go_through(harness, appends, transactional_id="x")
    await finished(verify(asked, coordinator, "x", version))
    append_now(asked, ACKS_LEADER, harness)
    return outcomes(response)


async def test_first_transactional_batch_of_partition_is_verified(harness):
    coordinator = Coordinator()
    found = await verified(harness, coordinator, ("t", transactional(), transactional()))
    assert found == [[(0, "NONE", 0), (1, "NONE", 0)]]
    assert coordinator.asked == [("x", (7, 0), [("t", 0), ("t", 1)], VERSION)]
    assert await verified(harness, coordinator, ("t", transactional(sequence=1))) == [
        [(0, "NONE", 1)]
    ]
    assert len(coordinator.asked) == 1
    await verified(harness, coordinator, ("t", transactional(epoch=1)))
    assert coordinator.asked[1:] == [("x", (7, 1), [("t", 0)], VERSION)]


def test_locally_coordinated_transaction_is_appended_at_once(harness):
    response, appends = resolved(harness, ("t", transactional(), transactional()))
    asked = go_through(harness, appends, transactional_id="x")
    coordinator = Coordinator(knows=True)
    assert started(verify(asked, coordinator, "x", VERSION)) is None
    assert coordinator.asked == [("x", (7, 0), [("t", 0), ("t", 1)], VERSION)]
    append_now(asked, ACKS_LEADER, harness)
    assert outcomes(response) == [[(0, "NONE", 0), (1, "NONE", 0)]]


async def test_unknown_local_transaction_is_verified_remotely(harness):
    response, appends = resolved(harness, ("t", transactional()))
    asked = go_through(harness, appends, transactional_id="x")
    verifying = started(verify(asked, Coordinator(), "x", VERSION))
    assert isinstance(verifying, Paused)
    await verifying.finish()
    append_now(asked, ACKS_LEADER, harness)
    assert outcomes(response) == [[(0, "NONE", 0)]]


@pytest.mark.parametrize(
    "code", ["INVALID_TXN_STATE", "TRANSACTION_ABORTABLE", "NOT_ENOUGH_REPLICAS"]
)
async def test_batch_unknown_to_coordinator_is_not_appended(harness, code):
    found = await verified(
        harness, Coordinator(ErrorCode[code]), ("t", transactional(), batch(b"b"))
    )
    assert found == [[(0, code, -1), (1, "NONE", 0)]]
    assert harness.leader("t", 0).log.log_end_offset == 0


async def test_marker_before_append_voids_verification(harness):
    """T4: the verification was for the transaction that the marker ends (KIP-890)."""

    abort = marker(harness, is_commit=False, epoch=0)
    coordinator = Coordinator(meanwhile=abort)
    found = await verified(harness, coordinator, ("t", transactional()), version=11)
    assert found == [[(0, "INVALID_TXN_STATE", -1)]]
    assert harness.leader("t", 0).log.last_stable_offset(1) == 1
    again = await verified(harness, Coordinator(), ("t", transactional()), version=11)
    assert again == [[(0, "NONE", 1)]]


@pytest.mark.parametrize("version", [12, VERSION])
async def test_previous_transactions_marker_may_precede_answer(harness, version):
    """In version 2 the coordinator has waited for it, and the batch has the next epoch."""
    await verified(harness, Coordinator(), ("t", transactional(epoch=0)))
    commit = marker(harness, is_commit=True, epoch=1)
    found = await verified(
        harness, Coordinator(meanwhile=commit), ("t", transactional(epoch=1)), version=version
    )
    assert found == [[(0, "NONE", 2)]]
    abort = marker(harness, is_commit=False, epoch=2)
    late = await verified(
        harness, Coordinator(meanwhile=abort), ("t", transactional(epoch=1, sequence=1))
    )
    assert late == [[(0, "NONE", 3)]], "no coordinator had to be asked"


OUT_OF_ORDER = [[(0, "OUT_OF_ORDER_SEQUENCE_NUMBER", -1)]]
COORDINATOR_MOVES = Coordinator(ErrorCode.NOT_ENOUGH_REPLICAS)


async def test_unknown_producer_must_begin_with_sequence_0(harness):
    """T5: this holds in version 2, where each transaction has its own epoch; before, any sequence began a new
    history.
    """
    coordinator = Coordinator()
    assert await verified(harness, coordinator, ("t", transactional(sequence=3))) == OUT_OF_ORDER
    assert await verified(harness, coordinator, ("t", transactional())) == [[(0, "NONE", 0)]]
    old = ("t", transactional(producer_id=8, sequence=3))
    assert await verified(harness, coordinator, old, version=11) == [[(0, "NONE", 1)]]


async def test_batch_does_not_overtake_failed_verification(harness):
    """KAFKA-14920: the first batch is retried, and would be out of order after the second one forever."""
    first = await verified(harness, COORDINATOR_MOVES, ("t", transactional(sequence=3)), version=11)
    assert first == [[(0, "NOT_ENOUGH_REPLICAS", -1)]]
    for sequence, expected in ((4, OUT_OF_ORDER), (3, [[(0, "NONE", 0)]]), (4, [[(0, "NONE", 1)]])):
        one = ("t", transactional(sequence=sequence))
        assert await verified(harness, Coordinator(), one, version=11) == expected


async def test_failed_and_stale_batches_are_not_verified(harness):
    await verified(harness, Coordinator(), ("t", transactional(epoch=1)))
    _, appends = resolved(harness, ("t", transactional(epoch=0), transactional(epoch=2)))
    validate_now(appends, harness.partitions)
    appends[1].refuse(ErrorCode.CORRUPT_MESSAGE)
    for transactional_id in ("x", None, ""):
        assert unverified(appends, transactional_id) == []
    codes = [append.response.error_code for append in appends]
    assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CORRUPT_MESSAGE]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (ErrorCode.INVALID_TXN_STATE, NOT_IN_TRANSACTION),
        (ErrorCode.TRANSACTION_ABORTABLE, NOT_IN_TRANSACTION),
        (ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction is not verified: NOT_ENOUGH_REPLICAS"),
    ],
)
async def test_failed_verification_is_explained_to_client(harness, code, message):
    response, appends = resolved(harness, ("t", transactional()))
    asked = go_through(harness, appends, transactional_id="x")
    await finished(verify(asked, Coordinator(code), "x", VERSION))
    assert response.responses[0].partition_responses[0].error_message == message


async def test_stale_epoch_is_not_verified(harness):
    """T5"""
    await verified(harness, Coordinator(), ("t", transactional(epoch=1)))
    coordinator = Coordinator()
    found = await verified(harness, coordinator, ("t", transactional(epoch=0)))
    assert (found, coordinator.asked) == ([[(0, "INVALID_PRODUCER_EPOCH", -1)]], [])


def marker(harness, *, is_commit, epoch):
    """Appends a marker when it is called."""
    return lambda: append_end_marker(
        harness.leader("t", 0),
        EndMarker(is_commit=is_commit, coordinator_epoch=0),
        producer_id=7,
        producer_epoch=epoch,
        transaction_version=0 if epoch == 0 else 2,
        now_ms=now_ms(),
    )


async def test_waiting_append_keeps_no_records(harness):
    _, [one] = resolved(harness, ("t", batch(b"a")))
    go_through(harness, [one])
    one.release()
    assert (len(one.records), one.batches, one.required_offset) == (0, (), 1)
