"""`kafka.isolation.level=read_committed` over directories: the records that Kafka's consumer would return, whatever the
log has lost. The twin walks the whole log from its beginning; our reader begins anywhere and looks ahead.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log import fixtures
from tests.spark.directories import checkpoint, make_node, write_partition
from tests.spark.kafka_log.test_reading import read
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.source import read_request_of
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.messages.control import ControlType, encode_control_key

KEY = ("t", 0)
COMMITTED = {"kafka.isolation.level": "read_committed"}
WITH_TRANSACTIONS = [
    name
    for name in fixtures.names()
    if fixtures.rows(name, "consumed", topic="transactions", isolation="read_committed")
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("committed")
    return {name: fixtures.unpack(name, folder / name) for name in WITH_TRANSACTIONS}


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("split_bytes", ["1", "700", "33554432"])
@pytest.mark.parametrize("name", WITH_TRANSACTIONS)
def test_rows_equal_those_of_kafkas_consumer(name, split_bytes, isolation, unpacked):
    found = read(
        unpacked[name],
        columns=("offset", "key"),
        subscribe="transactions",
        end="log_end",
        splitBytes=split_bytes,
        **{"kafka.isolation.level": isolation},
    )
    wanted = fixtures.rows(name, "consumed", topic="transactions", isolation=isolation)
    assert [(r["offset"], (r["key"] or b"null").decode()) for r in found] == [
        (row["offset"], row["key"]) for row in wanted
    ]
    assert wanted


# --- any log ---

PRODUCERS = st.sampled_from([7, 8, 9])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("data"), PRODUCERS, st.integers(1, 3)),
        st.tuples(st.sampled_from(["commit", "abort"]), PRODUCERS, st.just(1)),
        st.tuples(st.just("plain"), st.just(-1), st.integers(1, 3)),
    ),
    max_size=25,
)


def marker(offset, producer_id, kind):
    control = ControlType.COMMIT if kind == "commit" else ControlType.ABORT
    row = NewRecord(encode_control_key(control), bytes(6), 0)
    return build_batch(
        [row],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def log_of(script):
    """Returns (batches, events): markers end only open transactions, which coordinators guarantee."""
    batches, history, offset, begun = [], [], 0, set()
    for kind, producer_id, count in script:
        if kind in ("commit", "abort"):
            if producer_id not in begun:
                continue
            begun.discard(producer_id)
            batches.append(marker(offset, producer_id, kind))
        else:
            rows = [NewRecord(b"%d" % (offset + i), b"v", 0) for i in range(count)]
            transactional = kind == "data"
            begun |= {producer_id} if transactional else set()
            batches.append(
                build_batch(
                    rows,
                    base_offset=offset,
                    producer_id=producer_id,
                    producer_epoch=0 if transactional else -1,
                    is_transactional=transactional,
                )
            )
        history.append((kind, producer_id, offset, count))
        offset += count
    return batches, history, offset


def twin(history, start, high_watermark):
    """Walks the whole log in order; returns offsets of records that a consumer gets from `start` on."""
    given_offsets, pending, aborted = [], {}, set()
    for kind, producer_id, offset, count in history:
        if kind == "data":
            pending.setdefault(producer_id, []).extend(range(offset, offset + count))
        elif kind == "abort":
            aborted.update(pending.pop(producer_id, []))
        elif kind == "commit":
            pending.pop(producer_id, None)
    # The last stable offset: the first offset of a transaction that is open at the high watermark.
    begun = {}
    for kind, producer_id, offset, _ in history:
        if offset >= high_watermark:
            break
        if kind == "data":
            begun.setdefault(producer_id, offset)
        elif kind in ("commit", "abort"):
            begun.pop(producer_id, None)
    stable = min(begun.values(), default=high_watermark)
    for kind, _, offset, count in history:
        if kind in ("data", "plain"):
            given_offsets += [o for o in range(offset, offset + count) if o not in aborted]
    return [o for o in given_offsets if start <= o < stable]


@given(steps, st.data())
def test_rows_equal_twins_for_any_log(tmp_path_factory, script, data):
    batches, history, end = log_of(script)
    if not batches:
        return
    node = make_node(tmp_path_factory.mktemp("log"), 1)
    write_partition(node, "t", 0, batches, segment_bytes=data.draw(st.integers(150, 900)))
    ends = [offset for *_, offset, _ in history] + [end]
    high_watermark = data.draw(st.sampled_from(ends))
    start = data.draw(st.sampled_from([o for o in ends if o <= high_watermark]))
    if data.draw(st.booleans()):
        for index in (node / "t-0").glob("*.txnindex"):
            index.write_bytes(b"nonsense")
        for snapshot in (node / "t-0").glob("*.snapshot"):
            snapshot.unlink()
    checkpoint(node, {KEY: high_watermark}, {KEY: start} if start else None)
    split_bytes = str(data.draw(st.sampled_from([1, 200, 1000])))
    options = LogOptions.parse({"path": str(node), "splitBytes": split_bytes, **COMMITTED})
    wanted = read_request_of(options, ("offset",))
    tasks = plan_log(options).tasks
    found = [o for t in tasks for b in read_records(t, wanted) for o in b.column(0).to_pylist()]
    assert found == twin(history, start, high_watermark)


@given(steps)
def test_parts_one_after_another_are_the_whole(tmp_path_factory, script):
    """This is how a stream reads: each offset is in one part, wherever the parts are cut."""
    batches, history, end = log_of(script)
    if not batches:
        return
    node = make_node(tmp_path_factory.mktemp("log"), 1)
    write_partition(node, "t", 0, batches, segment_bytes=400)
    checkpoint(node, {KEY: end})
    whole = twin(history, 0, end)
    edges = sorted({0, *(o + 1 for o in range(0, end, 2)), end})
    found = []
    for first, last in pairwise(edges):
        stable = max(whole, default=-1) + 1
        last = min(last, max(first, stable))
        options = {
            "startingOffsets": f'{{"t":{{"0":{min(first, stable)}}}}}',
            "endingOffsets": f'{{"t":{{"0":{min(last, stable)}}}}}',
        }
        found += [row["offset"] for row in read(node, columns=("offset",), **options, **COMMITTED)]
    assert found == whole


def test_marker_found_ahead_belongs_to_its_transaction(tmp_path):
    """The search for the end of one transaction passes the markers of later transactions of another producer."""
    script = [
        ("data", 7, 1),
        ("data", 8, 1),
        ("abort", 8, 1),
        ("data", 8, 1),
        ("commit", 8, 1),
        ("data", 8, 1),
        ("abort", 8, 1),
        ("commit", 7, 1),
    ]
    batches, _, end = log_of(script)
    node = make_node(tmp_path, 1)
    write_partition(node, "t", 0, batches)
    checkpoint(node, {KEY: end})
    assert [row["offset"] for row in read(node, columns=("offset",), **COMMITTED)] == [0, 3]


def test_aborted_batches_are_left_out_of_batches_level(tmp_path):
    from trimaran.spark.kafka_log.batches import read_batches

    script = [("data", 7, 2), ("plain", -1, 1), ("abort", 7, 1), ("data", 8, 1), ("commit", 8, 1)]
    batches, _, end = log_of(script)
    node = make_node(tmp_path, 1)
    write_partition(node, "t", 0, batches)
    checkpoint(node, {KEY: end})
    found = read(
        node,
        reader=read_batches,
        columns=("base_offset", "control_type"),
        level="batches",
        includeControl="true",
        **COMMITTED,
    )
    assert [(row["base_offset"], row["control_type"]) for row in found] == [
        (2, None),
        (3, "ABORT"),
        (4, None),
        (5, "COMMIT"),
    ]


def test_marker_is_found_by_time_as_by_brokers(tmp_path):
    """The marker has the time of the commit, often the only time that is late enough."""
    batches, _, end = log_of([("data", 7, 2), ("commit", 7, 1), ("plain", -1, 3)])
    control = NewRecord(encode_control_key(ControlType.COMMIT), bytes(6), 9000)
    batches[1] = build_batch(
        [control],
        base_offset=2,
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    node = make_node(tmp_path, 1)
    write_partition(node, "t", 0, batches)
    checkpoint(node, {KEY: end})
    found = read(node, columns=("offset",), endingTimestamp="5000")
    assert [row["offset"] for row in found] == [0, 1]
    assert [row["offset"] for row in read(node, startingTimestamp="5000")] == [3, 4, 5]


def test_transaction_without_end_is_reported(tmp_path):
    """A log that was truncated manually: the outcome is unknown."""
    batches, _, _ = log_of([("data", 7, 2), ("plain", -1, 5), ("commit", 7, 1), ("plain", -1, 1)])
    node = make_node(tmp_path, 1)
    directory = write_partition(node, "t", 0, batches)
    checkpoint(node, {KEY: 9})
    options = LogOptions.parse({"path": str(node), **COMMITTED})
    tasks = plan_log(options).tasks
    [segment] = directory.glob("*.log")
    segment.write_bytes(segment.read_bytes().replace(batches[2], bytes(len(batches[2]))))
    wanted = read_request_of(options, ("offset",))
    with pytest.raises(DataUnreadable, match="has no end in this log"):
        _ = [batch for task in tasks for batch in read_records(task, wanted)]
