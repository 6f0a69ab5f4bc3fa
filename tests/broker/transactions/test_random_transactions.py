"""Random producers of one transactional id against a naive twin, which tracks only the newest producer and its
actions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from tests.broker.transactions.driver import Driver
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.transaction import PRODUCER_EPOCH_MAX, Transaction
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

E = ErrorCode
TIMEOUT_MS = 60_000

whos = st.integers(0, 3)  # the newest producer, its predecessor, …
ACTS = st.one_of(
    st.tuples(st.just("init")),
    st.tuples(st.just("init_told"), whos),
    st.tuples(st.just("add"), whos, st.integers(0, 3)),
    st.tuples(st.just("end"), whos, st.booleans()),
    st.tuples(st.just("markers")),
    st.tuples(st.just("late_marker")),
    st.tuples(st.just("reload")),
    st.tuples(st.just("time")),
)


def tried(act) -> tuple[Transaction | None, ErrorCode]:
    try:
        return act(), E.NONE
    except KafkaError as error:
        return None, error.code


@dataclass
class Twin:
    """`producers` in the order of their responses, the newest last; `open` partitions of the newest; `decided`: (how,
    partitions).
    """

    producers: list[Producer] = field(default_factory=list)
    open: set[tuple[str, int]] | None = None
    decided: tuple[bool, frozenset[tuple[str, int]]] | None = None
    ends: dict[Producer, tuple[bool, Producer]] = field(default_factory=dict)
    is_fenced: bool = (
        False  # the newest was fenced, by a timeout or by a request that is not answered yet
    )


class Run:
    def __init__(self, version: int, epoch: int) -> None:
        self.version = version
        self.driver = Driver(TransactionLimits(abort_interval_ms=1000), version=version)
        self.twin = Twin()
        self.markers: list[Transaction] = []
        if epoch:
            self.driver.force(Transaction(1, epoch, TIMEOUT_MS, updated_ms=self.driver.at.now_ms))
            self.twin.producers.append(Producer(1, epoch))

    def who(self, back: int) -> Producer | None:
        producers = self.twin.producers
        return producers[-1 - back] if back < len(producers) else None

    def told(self, transaction: Transaction) -> None:
        producer = transaction.response_producer
        assert producer.epoch <= PRODUCER_EPOCH_MAX
        if producer not in self.twin.producers:
            self.twin.producers.append(producer)
        assert producer == self.twin.producers[-1]

    def check_after(self, name: str, *args) -> None:
        getattr(self, f"do_{name}")(*args)
        self.check()

    def check(self) -> None:
        """Asserts that the state equals the twin's."""
        transaction, twin = self.driver.transaction, self.twin
        if transaction is None:
            assert not twin.producers
            return
        assert transaction.state.is_prepared == (twin.decided is not None)
        expected = twin.open or (twin.decided[1] if twin.decided else ())
        assert transaction.partitions == frozenset(expected)
        if twin.producers and not twin.is_fenced:
            assert transaction.response_producer == twin.producers[-1]

    def fence(self) -> None:
        self.twin.decided = (False, frozenset(self.twin.open or ()))
        self.twin.open = None
        self.twin.is_fenced = True

    def do_init(self) -> None:
        self._init(None)

    def do_init_told(self, back: int) -> None:
        if (who := self.who(back)) is not None:
            self._init(who)

    def _init(self, told: Producer | None) -> None:
        twin = self.twin
        decided, code = tried(lambda: self.driver.init(told, TIMEOUT_MS))
        if decided is None:
            if code is E.CONCURRENT_TRANSACTIONS:
                assert twin.decided
            else:
                assert code is E.PRODUCER_FENCED
                assert told is not None
                assert told != twin.producers[-1] or twin.is_fenced
            return
        assert twin.decided is None
        if decided.state.is_prepared:
            assert twin.open is not None
            assert told in (None, twin.producers[-1])
            self.fence()
            return
        assert twin.open is None
        twin.is_fenced = False
        self.told(decided)

    def do_add(self, back: int, index: int) -> None:
        if (who := self.who(back)) is None:
            return
        partition = TopicPartition("t", index)
        added, code = tried(lambda: self.driver.add(who, partition, version=self.version))
        if added is None:
            if code is E.CONCURRENT_TRANSACTIONS:
                assert self.twin.decided
            else:
                assert code in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING)
                assert back or self.twin.is_fenced
            return
        assert not back
        assert not self.twin.is_fenced
        assert self.twin.decided is None
        self.twin.open = (self.twin.open or set()) | {partition}

    def do_end(self, back: int, is_commit: bool) -> None:
        if (who := self.who(back)) is None:
            return
        twin = self.twin
        was_decided, was_open = twin.decided, twin.open
        decided, code = tried(
            lambda: self.driver.end(who, is_commit=is_commit, version=self.version)
        )
        if decided is None:
            assert code is not E.CONCURRENT_TRANSACTIONS or was_decided
            assert back or was_open is None, "its producer could not end it"
            return
        assert was_decided is None
        if decided.state.is_prepared:
            assert not back
            assert was_open is not None or (self.version == 2 and not is_commit)
            twin.decided, twin.open = (is_commit, frozenset(was_open or ())), None
            twin.ends[who] = (is_commit, decided.response_producer)
            self.told(decided)
        elif who in twin.ends:  # a retry: the same response
            assert twin.ends[who] == (is_commit, decided.response_producer)
        else:  # the producer was fenced meanwhile, and retries
            assert twin.is_fenced
            assert not is_commit
            self.told(decided)
            twin.is_fenced = False

    def do_markers(self) -> None:
        for marker in self.driver.write_markers():
            assert self.twin.decided is not None
            how, partitions = self.twin.decided
            assert (marker.state.shown == "PrepareCommit", marker.partitions) == (how, partitions)
            self.twin.decided = None
            self.markers.append(marker)
        assert self.twin.decided is None

    def do_late_marker(self) -> None:
        """Writes a marker of an outdated task: it ends no other transaction."""
        for marker in self.markers[-2:]:
            self.driver.write_markers_of(marker)

    def do_reload(self) -> None:
        self.driver.reload()

    def do_time(self) -> None:
        self.driver.advance(TIMEOUT_MS / 1000 + 2)
        if self.twin.open is not None:
            self.fence()


@given(
    version=st.sampled_from([0, 2]),
    epoch=st.sampled_from([0, 0, 32763, 32766]),
    acts=st.lists(ACTS, max_size=25),
)
@example(version=2, epoch=32763, acts=[("add", 0, 0), ("end", 0, True), ("markers",)] * 5)
@example(version=0, epoch=32763, acts=[("init",), ("add", 0, 0)] * 5)
@example(
    version=0,
    epoch=32766,
    acts=[
        ("add", 0, 0),
        ("init_told", 0),
        ("markers",),
        ("init_told", 0),
        ("add", 0, 0),
    ],
)
@example(
    version=2,
    epoch=0,
    acts=[("init",), ("init_told", 0), ("add", 0, 0), ("init_told", 1)],
)
def test_only_newest_producer_acts_each_transaction_ends_once(version, epoch, acts):
    run = Run(version, epoch)
    for act in acts:
        run.check_after(*act)
    run.check_after("markers")
