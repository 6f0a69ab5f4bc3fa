"""The result of each rule in each state: every field of the next state, or the code, in tables.

`test_transcripts.py` and `test_random_transactions.py` follow producers through many requests; here all numbers differ,
so that a test fails if two are confused.
"""

from __future__ import annotations

from itertools import product

from tests.checks import check_each
from trimaran.broker.transactions import rules
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

E, S = ErrorCode, TransactionState
ID, EPOCH, PREVIOUS_ID, NEW_ID = 10, 6, 9, 77
LAST, FENCING = 32_766, 32_767  # the last epoch that a producer gets, and the one above it
TIMEOUT_MS, NEW_TIMEOUT_MS = 60_000, 1_234
STARTED_MS, UPDATED_MS, NOW_MS = 1_000_000, 2_000_000, 3_000_000
OURS = frozenset({TopicPartition("a", 1), TopicPartition("b", 0)})
AT_REST = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
PREPARED = (S.PREPARE_COMMIT, S.PREPARE_ABORT)


def known(state: S, **fields: object) -> Transaction:
    """Returns an id in `state`, all of whose fields differ."""
    has_partitions = state is S.ONGOING or state.is_prepared
    transaction = Transaction(
        producer_id=ID,
        epoch=EPOCH,
        timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=OURS if has_partitions else frozenset(),
        last_epoch=EPOCH - 1,
        previous_producer_id=PREVIOUS_ID,
        started_ms=STARTED_MS,
        updated_ms=UPDATED_MS,
        client_version=1,
    )
    return transaction._replace(**fields)


def outcome(act, *args, **options):
    """Returns the next state, or the error code."""
    try:
        return act(*args, **options)
    except KafkaError as error:
        return error.code


def init(transaction, told):
    return outcome(rules.init_producer, transaction, told, NEW_TIMEOUT_MS, NEW_ID, NOW_MS)


def begun(transaction, **fields):
    """Returns the state of an idle id after InitProducerId."""
    return transaction._replace(
        state=S.EMPTY,
        timeout_ms=NEW_TIMEOUT_MS,
        partitions=frozenset(),
        previous_producer_id=ID,
        next_producer_id=-1,
        next_epoch=-1,
        started_ms=-1,
        updated_ms=NOW_MS,
        **fields,
    )


def fenced(transaction, **fields):
    return transaction._replace(
        state=S.PREPARE_ABORT, previous_producer_id=ID, updated_ms=NOW_MS, **fields
    )


def rows_of_init():
    """Returns rows of the state before, the producer in the request, and the outcome."""
    yield None, None, Transaction(NEW_ID, 0, NEW_TIMEOUT_MS, updated_ms=NOW_MS)
    yield None, Producer(5, 5), Transaction(NEW_ID, 0, NEW_TIMEOUT_MS, updated_ms=NOW_MS)
    for state, told in product(PREPARED, (None, Producer(ID, EPOCH), Producer(8, 8))):
        yield known(state), told, E.CONCURRENT_TRANSACTIONS
    open_ = known(S.ONGOING)
    yield open_, None, fenced(open_, epoch=EPOCH + 1, last_epoch=-1)
    yield open_, Producer(ID, EPOCH), fenced(open_, epoch=EPOCH + 1, last_epoch=EPOCH)
    last = known(S.ONGOING, epoch=LAST)
    yield last, None, fenced(last, epoch=FENCING, last_epoch=-1)
    above = known(S.ONGOING, epoch=FENCING)
    yield above, None, fenced(above, epoch=FENCING, last_epoch=-1)
    for told in strangers():
        yield open_, told, E.PRODUCER_FENCED
    yield open_, Producer(ID, EPOCH - 1), E.PRODUCER_FENCED
    for state in AT_REST:
        yield from rows_of_init_at_rest(state)


def strangers():
    """Returns producers that are neither the current one nor its predecessor."""
    yield Producer(ID, EPOCH + 1)
    yield Producer(ID, EPOCH - 2)
    yield Producer(ID + 1, EPOCH)
    yield Producer(ID + 1, EPOCH - 1)
    yield Producer(PREVIOUS_ID, EPOCH)
    yield Producer(PREVIOUS_ID, LAST)


def rows_of_init_at_rest(state):
    here = known(state)
    yield here, None, begun(here, epoch=EPOCH + 1, last_epoch=-1)
    yield here, Producer(ID, EPOCH), begun(here, epoch=EPOCH + 1, last_epoch=EPOCH)
    yield here, Producer(ID, EPOCH - 1), begun(here)
    for told in strangers():
        yield here, told, E.PRODUCER_FENCED
    loaded = known(state, last_epoch=-1)
    yield loaded, Producer(ID, EPOCH - 1), E.PRODUCER_FENCED
    before = known(state, epoch=LAST - 1)
    yield before, None, begun(before, epoch=LAST, last_epoch=-1)
    last = known(state, epoch=LAST, last_epoch=LAST - 1)
    yield last, None, begun(last, producer_id=NEW_ID, epoch=0, last_epoch=-1)
    yield last, Producer(ID, LAST), begun(last, producer_id=NEW_ID, epoch=0, last_epoch=LAST)
    yield last, Producer(ID, LAST - 1), begun(last)
    above = known(state, epoch=FENCING, last_epoch=LAST)
    yield above, Producer(ID, LAST), begun(above, producer_id=NEW_ID, epoch=0, last_epoch=LAST)
    for last_epoch in (-1, LAST):
        rotated = known(state, epoch=0, last_epoch=last_epoch)
        yield rotated, Producer(PREVIOUS_ID, LAST), begun(rotated)
        yield rotated, Producer(PREVIOUS_ID, LAST - 1), E.PRODUCER_FENCED
        yield rotated, Producer(PREVIOUS_ID - 1, LAST), E.PRODUCER_FENCED
    yield rotated, Producer(PREVIOUS_ID, FENCING), E.PRODUCER_FENCED
    yield known(state, epoch=1), Producer(PREVIOUS_ID, LAST), E.PRODUCER_FENCED
    used = known(state, next_producer_id=5, next_epoch=4)
    yield used, None, begun(used, epoch=EPOCH + 1, last_epoch=-1)


def test_init_producer_has_expected_outcome_per_state():
    def check(row):
        before, told, expected = row
        assert init(before, told) == expected

    check_each(rows_of_init(), check)


def test_init_takes_producer_id_only_if_needed():
    def check(row):
        before, told, expected = row
        if isinstance(expected, Transaction):
            is_new = expected.producer_id == NEW_ID
            assert rules.needs_producer_id(before, told) == is_new

    check_each(rows_of_init(), check)
    for state in (*PREPARED, S.ONGOING):
        assert not rules.needs_producer_id(known(state, epoch=LAST), None)


def who_may_not(transaction):
    """Returns refused producers and their error codes, for requests other than InitProducerId."""
    yield Producer(transaction.producer_id, transaction.epoch - 1), E.PRODUCER_FENCED
    yield Producer(transaction.producer_id, transaction.epoch + 1), E.PRODUCER_FENCED
    yield Producer(ID + 1, transaction.epoch), E.INVALID_PRODUCER_ID_MAPPING
    yield Producer(ID + 1, transaction.epoch + 1), E.INVALID_PRODUCER_ID_MAPPING


def acting_rows():
    """Returns rows of the state before, the producer, and the error code, for partitions that are added or verified."""
    me = Producer(ID, EPOCH)
    yield None, me, E.INVALID_PRODUCER_ID_MAPPING
    for state in PREPARED:
        for who in (me, Producer(ID, EPOCH + 1), Producer(ID + 1, EPOCH)):
            yield known(state), who, E.CONCURRENT_TRANSACTIONS
    for state in (S.ONGOING, *AT_REST):
        for who, code in who_may_not(known(state)):
            yield known(state), who, code


def test_partitions_of_other_producers_are_refused():
    def check(row):
        before, who, code = row
        assert outcome(rules.add_partitions, before, who, OURS, 2, NOW_MS) == code
        assert outcome(rules.verify_partitions, before, who, OURS) == code

    check_each(acting_rows(), check)


def test_first_partitions_begin_transaction_others_join():
    me, more = Producer(ID, EPOCH), frozenset({TopicPartition("b", 0), TopicPartition("c", 2)})

    def check(state):
        begins = rules.add_partitions(known(state), me, more, 2, NOW_MS)
        assert begins == known(state)._replace(
            state=S.ONGOING,
            partitions=more,
            previous_producer_id=ID,
            started_ms=NOW_MS,
            updated_ms=NOW_MS,
            client_version=2,
        )

    check_each(AT_REST, check)
    open_ = known(S.ONGOING)
    joins = rules.add_partitions(open_, me, more, 2, NOW_MS)
    assert joins == open_._replace(
        partitions=OURS | more, previous_producer_id=ID, updated_ms=NOW_MS, client_version=2
    )
    for some in (OURS, {TopicPartition("a", 1)}, ()):
        assert rules.add_partitions(open_, me, some, 2, NOW_MS) is open_
    at_rest = known(S.EMPTY, partitions=OURS)
    assert rules.add_partitions(at_rest, me, OURS, 2, NOW_MS).state is S.ONGOING


def test_only_partitions_of_open_transaction_are_verified():
    me, asked = (
        Producer(ID, EPOCH),
        [
            TopicPartition("a", 1),
            TopicPartition("b", 0),
            TopicPartition("a", 0),
            TopicPartition("c", 1),
        ],
    )
    found = rules.verify_partitions(known(S.ONGOING), me, asked)
    aborts = E.TRANSACTION_ABORTABLE
    assert found == dict(zip(asked, [E.NONE, E.NONE, aborts, aborts], strict=True))
    for state in AT_REST:
        at_rest = known(state, partitions=OURS)
        assert rules.verify_partitions(at_rest, me, asked) == dict.fromkeys(asked, aborts)


# -- ends


def end(transaction, producer, *, is_commit, version):
    return outcome(
        rules.end,
        transaction,
        producer,
        is_commit=is_commit,
        client_version=version,
        new_producer_id=NEW_ID,
        now_ms=NOW_MS,
    )


PREPARE = {True: S.PREPARE_COMMIT, False: S.PREPARE_ABORT}
COMPLETE = {True: S.COMPLETE_COMMIT, False: S.COMPLETE_ABORT}


def rows_of_end():
    """Columns: the state before, the producer, whether it commits, the version, the outcome."""
    for is_commit, version in product((True, False), (0, 1, 2)):
        yield None, Producer(ID, EPOCH), is_commit, version, E.INVALID_PRODUCER_ID_MAPPING
    for is_commit in (True, False):
        for version in (0, 1):
            yield from ((*row, is_commit, version, code) for *row, code in unbumped(is_commit))
        yield from ((*row, is_commit, 2, code) for *row, code in bumped(is_commit))


def unbumped(is_commit):
    """Yields the cases up to transaction version 1, in which the producer keeps its epoch."""
    me = Producer(ID, EPOCH)
    open_ = known(S.ONGOING)
    ended = {"state": PREPARE[is_commit], "previous_producer_id": ID, "updated_ms": NOW_MS}
    yield open_, me, open_._replace(client_version=0, **ended)
    last = known(S.ONGOING, epoch=LAST)
    yield last, Producer(ID, LAST), last._replace(client_version=0, **ended)
    yield known(S.EMPTY), me, E.INVALID_TXN_STATE
    yield known(PREPARE[is_commit]), me, E.CONCURRENT_TRANSACTIONS
    yield known(PREPARE[not is_commit]), me, E.INVALID_TXN_STATE
    yield known(COMPLETE[is_commit]), me, known(COMPLETE[is_commit])
    yield known(COMPLETE[not is_commit]), me, E.INVALID_TXN_STATE
    for state in S:
        yield from ((known(state), *row) for row in who_may_not(known(state)))


def bumped(is_commit):
    """From version 2 on the producer continues with the next epoch, or with another id if there is no next epoch."""
    me, before = Producer(ID, EPOCH), Producer(ID, EPOCH - 1)
    for state, who in product(PREPARED, (me, before, Producer(ID + 1, EPOCH))):
        yield known(state), who, E.CONCURRENT_TRANSACTIONS
    ended = {
        "state": PREPARE[is_commit],
        "previous_producer_id": ID,
        "updated_ms": NOW_MS,
        "client_version": 2,
    }
    open_ = known(S.ONGOING)
    yield open_, me, open_._replace(epoch=EPOCH + 1, last_epoch=EPOCH, **ended)
    before_last = known(S.ONGOING, epoch=LAST - 1)
    yield (
        before_last,
        Producer(ID, LAST - 1),
        before_last._replace(epoch=LAST, last_epoch=LAST - 1, **ended),
    )
    last = known(S.ONGOING, epoch=LAST)
    above = {"epoch": FENCING, "last_epoch": LAST, "next_producer_id": NEW_ID}
    yield last, Producer(ID, LAST), last._replace(**above, **ended)
    for state in AT_REST:
        here = known(state, partitions=OURS)
        if is_commit:
            yield here, me, E.INVALID_TXN_STATE
            continue
        ended |= {"partitions": frozenset(), "started_ms": NOW_MS}
        yield here, me, here._replace(epoch=EPOCH + 1, last_epoch=EPOCH, **ended)
        last = known(state, epoch=LAST)
        yield last, Producer(ID, LAST), last._replace(**above, **ended)
    yield from ended_before(is_commit)
    for state in (S.ONGOING, S.EMPTY):
        yield from ((known(state), *row) for row in who_may_not(known(state)))


def ended_before(is_commit):
    """The producer retries with the epoch that it had before the end."""
    done = known(COMPLETE[is_commit])
    yield done, Producer(ID, EPOCH - 1), done
    yield known(COMPLETE[not is_commit]), Producer(ID, EPOCH - 1), E.INVALID_TXN_STATE
    for who in (Producer(ID, EPOCH + 1), Producer(ID, EPOCH - 2)):
        yield done, who, E.PRODUCER_FENCED
    for who in (Producer(PREVIOUS_ID, EPOCH - 1), Producer(ID + 1, EPOCH), Producer(11, LAST)):
        yield done, who, E.INVALID_PRODUCER_ID_MAPPING
    last = known(COMPLETE[is_commit], epoch=LAST)
    yield last, Producer(ID, LAST - 1), last
    yield known(COMPLETE[is_commit], epoch=FENCING), Producer(ID, LAST), E.PRODUCER_FENCED
    rotated = known(COMPLETE[is_commit], epoch=0)
    yield rotated, Producer(PREVIOUS_ID, LAST), rotated
    yield rotated, Producer(PREVIOUS_ID, LAST - 1), E.INVALID_PRODUCER_ID_MAPPING
    yield rotated, Producer(PREVIOUS_ID - 1, LAST), E.INVALID_PRODUCER_ID_MAPPING
    yield known(COMPLETE[not is_commit], epoch=0), Producer(PREVIOUS_ID, LAST), E.INVALID_TXN_STATE
    for state in (S.EMPTY, S.ONGOING):
        rotated = known(state, epoch=0)
        yield rotated, Producer(PREVIOUS_ID, LAST), E.INVALID_PRODUCER_ID_MAPPING


def test_end_has_expected_outcome_per_state():
    def check(row):
        before, who, is_commit, version, expected = row
        after = end(before, who, is_commit=is_commit, version=version)
        assert after == expected
        if expected == before:
            assert after is before, "nothing is written for it"

    check_each(rows_of_end(), check)


def test_end_takes_producer_id_only_if_needed():
    def check(row):
        before, _who, _is_commit, version, expected = row
        if isinstance(expected, Transaction) and expected is not before:
            is_new = expected.next_producer_id == NEW_ID
            assert rules.needs_next_producer_id(before, version) == is_new

    check_each((row for row in rows_of_end() if row[-1] != row[0]), check)
    for state in PREPARED:
        assert not rules.needs_next_producer_id(known(state, epoch=LAST), 2)
    assert not rules.needs_next_producer_id(None, 2)
    assert rules.needs_next_producer_id(known(S.ONGOING, epoch=LAST), 2)
    assert not rules.needs_next_producer_id(known(S.ONGOING, epoch=LAST), 1)


def test_completion_follows_the_decision():
    def check(is_commit):
        decided = known(PREPARE[is_commit], next_epoch=3)
        done = {
            "state": COMPLETE[is_commit],
            "partitions": frozenset(),
            "previous_producer_id": ID,
            "next_producer_id": -1,
            "next_epoch": -1,
            "updated_ms": NOW_MS,
        }
        assert rules.complete(decided, NOW_MS) == decided._replace(**done)
        rotates = decided._replace(epoch=FENCING, next_producer_id=NEW_ID)
        expected = rotates._replace(producer_id=NEW_ID, epoch=0, **done)
        assert rules.complete(rotates, NOW_MS) == expected

    check_each((True, False), check)


def test_transaction_times_out_to_the_millisecond():
    end_ms = STARTED_MS + TIMEOUT_MS
    assert rules.is_timed_out(known(S.ONGOING), end_ms)
    assert not rules.is_timed_out(known(S.ONGOING), end_ms - 1)
    check_each(
        [state for state in S if state is not S.ONGOING],
        lambda state: _assert_not(rules.is_timed_out(known(state), end_ms)),
    )


def test_idle_id_expires_to_the_millisecond():
    def check(state):
        expired = rules.is_expired(known(state), 500, UPDATED_MS + 500)
        assert expired == (state in AT_REST)
        assert not rules.is_expired(known(state), 500, UPDATED_MS + 499)

    check_each(S, check)


def _assert_not(found):
    assert not found
