"""One seeded run of brokers with the real partition layer: first with faults, then without faults until everything has
recovered. The run takes place inside `trio.run`, on simulated time. The next step is an event of the world or the
deadline of a task, whichever is earlier; then every task runs until it waits, in an order drawn from the seed, and the
checker examines all replicas.
"""

from __future__ import annotations

import heapq
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypeVar

import trio

from tests.simulation.checker import Violation
from tests.simulation.here import patched_here
from tests.simulation.partitions.broker import SimBroker
from tests.simulation.partitions.checker import Checker, Key
from tests.simulation.partitions.clients import all_of, delete_records
from tests.simulation.partitions.controller import SimController
from tests.simulation.partitions.copies import CopiesChecker
from tests.simulation.partitions.faults import Faults, Rules
from tests.simulation.partitions.kernel import SimKernel
from tests.simulation.partitions.network import CONTROLLER, Network
from tests.simulation.partitions.replica_logs import batch_ends
from tests.simulation.partitions.storage_faults import StorageFaults
from tests.simulation.partitions.storing import StoringBroker
from tests.simulation.tasks import Tasks
from tests.simulation.world import Result
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.log.durability import syncing
from trimaran.quorum.metadata.image import MetadataImage, PartitionImage
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.schema import Message

CHAOS_SECONDS = 5.0
# A multiple of a broker session, the followers' maximum lag, and the longest request.
RECOVERY_SECONDS = 8.0
# Without writes at the end, each follower fetches only once in 300 ms.
QUIET_SECONDS = 1.0
FETCHES_PER_SECOND_MAX = 60
PRODUCE_SECONDS = 0.12
EVENTS_MAX = 60_000
# Unix time at the beginning of a run, in ms.
BEGAN_MS = 1_700_000_000_000
FAULTS = (
    *(
        "kill",
        "power cut",
        "wipe",
        "disk failed",
        "isolation",
        "cut links",
        "slow link",
        "leader moved",
    ),
    *("reassignment", "topic made again", "clean stop", "records deleted"),
    *("directory failed", "directory away", "replica moved", "small file damaged"),
)


class PartitionsResult(Result):
    @property
    def made_progress(self) -> bool:
        return self.acked > 0 and not self.faults.keys().isdisjoint(FAULTS)


T = TypeVar("T")
U = TypeVar("U")


class World:
    recovery_seconds = RECOVERY_SECONDS
    fetches_per_second_max = FETCHES_PER_SECOND_MAX

    def __init__(
        self,
        seed: int,
        faults: Faults | None = None,
        rules: Rules | None = None,
        chaos_seconds: float = CHAOS_SECONDS,
        emphasis: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`emphasis` overrides some of the seed's rules and faults, to search for a specific bug."""
        self.seed = seed
        self.chaos_seconds = chaos_seconds
        self.prng = random.Random(seed)
        self.now = 0.0
        self.events = 0
        self.acked = 0
        self.fetches = 0
        self.is_calm = False
        self.produce_seconds = PRODUCE_SECONDS
        self.happened: Counter[str] = Counter()
        # a line for each event, or None
        self.trace: list[str] | None = None
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._sequence = 0
        self._number = 0
        self.rules = rules or Rules.draw(self.prng)
        self.faults = faults or Faults.draw(self.prng)
        for name, value in emphasis.items():
            if hasattr(self.faults, name):
                setattr(self.faults, name, value)
            else:
                self.rules = replace(self.rules, **{name: value})
        self.checker = self._new_checker()
        self.storage = StorageFaults(self)
        self.tasks = Tasks(self)
        self._kernel = SimKernel(self, self.rules.kernel_takes)
        self.network: Network
        self.brokers: dict[int, SimBroker] = {}
        self.controller: SimController

    # --- parts of a run

    def _new_checker(self) -> Checker:
        return CopiesChecker(self) if self.rules.directories > 1 else Checker(self)

    def _new_controller(self) -> SimController:
        return SimController(self)

    def _new_broker(self, number: int) -> SimBroker:
        kind = StoringBroker if self.rules.directories > 1 else SimBroker
        return kind(self, number)

    def _clients(self) -> Sequence[Any]:
        return all_of(self)

    def _patches(self) -> Sequence[AbstractContextManager[object]]:
        """Returns the patches that are in place during the run."""
        return (
            patched_here(syncing, "run_in_own_thread", self._flush),
            patched_here(syncing, "of_this_run", lambda: self._kernel),
            patched_here(trio.to_thread, "run_sync", self._in_thread),
            *(self.storage.patches() if self.rules.directories > 1 else ()),
        )

    # --- time

    def now_ms(self) -> int:
        return BEGAN_MS + int(self.now * 1000)

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def say(self, *words: object) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:9.4f} " + " ".join(map(str, words)))

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + seconds, self._sequence, action))

    def between_turns(self) -> None:
        """Does nothing; a callback of `Tasks`."""

    async def run_until(self, end: float, done: Callable[[], bool] = lambda: False) -> bool:
        while True:
            await self.tasks.settle()
            self.checker.look()
            if done():
                return True
            at = self._heap[0][0] if self._heap else end
            following = min(at, self.tasks.next_deadline)
            if following > end:
                self.now = max(self.now, end)
                return False
            self.now = max(self.now, following)
            self.events += 1
            if self.events > EVENTS_MAX:
                raise Violation(f"L1 more than {EVENTS_MAX} events: a task is busy in a loop")
            if self._heap and self._heap[0][0] <= self.now:
                heapq.heappop(self._heap)[2]()

    # --- requests of other parts

    @property
    def keys(self) -> list[Key]:
        return list(self.checker.histories)

    def name_of(self, key: Key) -> str:
        topic = self.controller.image.topics.by_id.get(key[0])
        return "" if topic is None else topic.name

    def state_of(self, key: Key) -> PartitionImage | None:
        topic = self.controller.image.topics.by_id.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    def leader_epoch(self, key: Key, state: PartitionImage) -> PartitionLeader | None:
        """Returns the leader's epoch that the controller knows; None if the broker has not begun it."""
        broker = self.brokers.get(state.leader)
        if broker is None or not broker.is_serving:
            return None
        partition = broker.partitions.find(TopicPartition(self.name_of(key), key[1]))
        leader = None if partition is None else partition.leader_or_none
        if leader is None or leader.epoch != state.leader_epoch or leader.ended:
            return None
        return leader

    def metadata_changed(self, before: MetadataImage, after: MetadataImage) -> None:
        for topic_id, topic in after.topics.by_id.items():
            if topic_id not in before.topics.by_id:
                for index in topic.partitions:
                    self.checker.made((topic_id, index))
            elif self.trace is not None:
                old = before.topics.by_id[topic_id]
                for index, state in topic.partitions.items():
                    if old.partitions[index] is not state:
                        self.say(f"controller: {topic.name}-{index}", *_told(state))
        for topic_id, topic in before.topics.by_id.items():
            if topic_id not in after.topics.by_id:
                for index in topic.partitions:
                    self.checker.gone((topic_id, index))
        self.checker.metadata_changed(before, after)

    def saw_request(self, source: SimBroker, target: SimBroker, request: Message) -> None:
        """Counts and traces a follower's request to its leader."""
        self.fetches += 1
        if self.trace is not None and isinstance(request, FetchRequest) and request.topics:
            asked = [
                f"{self.name_of((topic.topic_id, partition.partition))}-{partition.partition}@{partition.fetch_offset}"
                f" (epoch {partition.current_leader_epoch}, last {partition.last_fetched_epoch})"
                for topic in request.topics
                for partition in topic.partitions
            ]
            self.say(source.id, "→", target.id, "Fetch", *asked)

    # --- faults

    def _every(self, seconds: float, action: Callable[[], object]) -> None:
        """Repeats an action at exponentially distributed intervals until the faults stop."""
        if not seconds:
            return

        def happen() -> None:
            if self.now < self.chaos_seconds:
                action()
                self.after(self.prng.expovariate(1 / seconds), happen)

        self.after(self.prng.expovariate(1 / seconds), happen)

    def _schedule_faults(self) -> None:
        faults = self.faults
        self._every(faults.crash_every, self._crash)
        self._every(faults.disk_fails_every, self._fail_disk)
        self._every(faults.stop_every, self._stop)
        self._every(faults.isolate_every, self._isolate)
        self._every(faults.partition_every, self._cut)
        self._every(faults.slow_every, self._slow)
        self._every(faults.balance_every, self._balance)
        self._every(faults.reassign_every, self._reassign)
        self._every(faults.recreate_every, self._recreate)
        self._every(faults.delete_records_every, self._delete_records)
        if self.rules.directories > 1:
            self._every(faults.alone_every, self._leave_alone)
            self.storage.schedule()

    def _some_broker(self) -> SimBroker:
        return self.prng.choice(list(self.brokers.values()))

    def _crash(self) -> None:
        broker = self._some_broker()
        if not broker.alive:
            return
        power_cut = self.prng.random() < self.faults.power_cut
        self.say(broker.id, "loses power" if power_cut else "is killed")
        self.happened["power cut" if power_cut else "kill"] += 1
        broker.end(power_cut=power_cut)
        if self.prng.random() < self.faults.wipe and self._may_wipe(broker):
            self.say(broker.id, "gets an empty disk")
            self.happened["wipe"] += 1
            broker.wipe()
        downtime = self.prng.choice((0.02, 0.3, 1.5, 3.0))
        self.after(self.prng.uniform(0.01, downtime), self.restart_of(broker))

    def _fail_disk(self) -> None:
        """Lets a broker's next flush fail."""
        broker = self._some_broker()
        if broker.is_serving:
            self.say("the next flush of", broker.id, "will fail")
            broker.fail_next_flush()

    def _may_wipe(self, broker: SimBroker) -> bool:
        """Whether the broker may lose its disk. Acknowledged records are on min.insync.replicas disks, so only one at a
        time may be lost, until all of its data is copied again. Without eligible leader replicas a returning broker is
        not checked for a lost disk (KAFKA-15495).
        """
        if not self.rules.elr or min(self.rules.min_isr, self.rules.factor) < 2:
            return False
        if any(other.was_wiped for other in self.brokers.values() if other is not broker):
            return False
        return all(
            len(state.isr) + len(state.elr) >= 2
            for topic in self.controller.image.topics.by_id.values()
            for state in topic.partitions.values()
            if broker.id in state.replicas
        )

    def restart_of(self, broker: SimBroker) -> Callable[[], None]:
        life = broker.life

        def restart() -> None:
            if not broker.alive and broker.life == life:
                broker.begin()

        return restart

    def _stop(self) -> None:
        broker = self._some_broker()
        if broker.is_serving:
            self.say(broker.id, "is asked to stop")
            broker.stop()

    def _isolate(self) -> None:
        """Delays all messages to and from a broker, as if its process were frozen; then they arrive at once."""
        broker = self._some_broker()
        self.say(broker.id, "is cut off")
        self.happened["isolation"] += 1
        self.network.isolated.add(broker.id)

        def end() -> None:
            self.say(broker.id, "is back")
            self.network.isolated.discard(broker.id)
            self._mend()

        self.after(self.prng.choice((0.2, 0.8, 1.5, 2.5)) * self.prng.uniform(0.5, 1.5), end)

    def _leave_alone(self) -> None:
        """Cuts a broker off from all except clients for longer than its session, so that no other broker has its new
        records.
        """
        broker = self._some_broker()
        self.say(broker.id, "is left alone")
        others = {CONTROLLER, *self.brokers} - {broker.id}
        cut = {pair for other in others for pair in ((other, broker.id), (broker.id, other))}
        self.network.cut |= cut

        def end() -> None:
            self.say(broker.id, "is left alone no more")
            self.network.cut -= cut
            self._mend()

        self.after(self.prng.uniform(1.0, 2.5), end)

    def _cut(self) -> None:
        """Cuts random links in one direction or both, perhaps including those to the controller."""
        ids = [CONTROLLER, *self.brokers]
        pairs = [(a, b) for a in ids for b in ids if a != b]
        cut = set(self.prng.sample(pairs, self.prng.randint(1, len(pairs) // 2)))
        self.say("cut:", " ".join(f"{a}→{b}" for a, b in sorted(cut)))
        self.happened["cut links"] += 1
        self.network.cut |= cut

        def end() -> None:
            self.say("mended:", " ".join(f"{a}→{b}" for a, b in sorted(cut)))
            self.network.cut -= cut
            self._mend()

        self.after(self.prng.uniform(0.1, 2.5), end)

    def _mend(self) -> None:
        self.network.mend()
        for broker in self.brokers.values():
            self.controller.tell(broker)

    def _slow(self) -> None:
        source, target = self.prng.sample([CONTROLLER, *self.brokers], 2)
        self.happened["slow link"] += 1
        self.network.slow[source, target] = self.prng.uniform(0.1, 1.5)
        self.after(
            self.prng.uniform(0.3, 2.0), lambda: self.network.slow.pop((source, target), None)
        )

    def _balance(self) -> None:
        if self.controller.balance():
            self.happened["leader moved"] += 1

    def _reassign(self) -> None:
        if not self.keys:
            return
        key = self.prng.choice(self.keys)
        replicas = self.prng.sample(list(self.brokers), self.rules.factor)
        if self.controller.reassign(self.name_of(key), key[1], replicas):
            self.say("reassigned", self.name_of(key), key[1], "to", replicas)
            self.happened["reassignment"] += 1

    def _recreate(self) -> None:
        if not self.keys:
            return
        topic_id = self.keys[0][0]
        self.say("the topic is deleted")
        self.controller.delete_topic(topic_id)
        self.after(self.prng.uniform(0, 0.6), self._create)
        self.happened["topic made again"] += 1

    def _delete_records(self) -> None:
        if self.keys:
            self._delete_records_of(self.prng.choice(self.keys))

    def _delete_records_of(self, key: Key) -> None:
        state = self.state_of(key)
        if state is None or state.leader < 0:
            return
        broker = self.brokers[state.leader]
        if broker.is_serving:
            self.say("records of", self.name_of(key), key[1], "are deleted")
            delete_records(broker, key)

    def _create(self) -> None:
        """Creates a topic on running brokers, or later if there are too few."""
        active = [
            broker.id for broker in self.controller.image.cluster.brokers.values() if broker.active
        ]
        if self.controller.image.topics.by_id:
            return
        if len(active) < self.rules.factor:
            self.after(0.1, self._create)
            return
        # Ids must be as different as random ones, because two similar ids are taken for one that is damaged.
        topic_id = sha256(b"%d" % self.next_number()).digest()[:16]
        members = [
            self.prng.sample(active, self.rules.factor) for _ in range(self.rules.partitions)
        ]
        self.say("the topic is made, replicas", *members)
        self.controller.create_topic("t", topic_id, members)

    # --- the run

    def run(self) -> Result:
        logging.disable(logging.CRITICAL)
        try:
            return self.tasks.run(self._play_to_the_end, *self._patches())
        finally:
            logging.disable(logging.NOTSET)
            for broker in self.brokers.values():
                if hasattr(broker, "directories"):
                    broker.release_locks()

    async def _flush(self, flush: Callable[[], T], then: Callable[[T], U]) -> U:
        """Flushes with a delay before and after the disk has the bytes."""
        seconds = self.faults.flush_seconds(self.prng)
        share = self.prng.random()
        await trio.sleep(seconds * share)
        result = flush()
        await trio.sleep(seconds * (1 - share))
        return then(result)

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
        await trio.sleep(self.prng.uniform(0.0001, 0.003))
        result = work(*arguments)
        if self.rules.directories > 1 and self.prng.random() < self.faults.slow_thread:
            self.happened["slow thread"] += 1
            await trio.sleep(self.prng.choice((0.02, 0.2, 2.0)) * self.prng.random())
            if isinstance(result, bytes):
                read = self.prng.choice(list(batch_ends(result))[-4:])
                result = result[:read] + work(*arguments)[read:]
        return result

    async def _play_to_the_end(self) -> Result:
        try:
            return await self._play()
        finally:
            self._kernel.close()

    async def _play(self) -> Result:
        self.network = Network(self)
        self.controller = self._new_controller()
        self.brokers = {number: self._new_broker(number) for number in self._broker_ids()}
        for broker in self.brokers.values():
            broker.begin()
        self.controller.look()
        self._create()
        await self.run_until(3.0, lambda: bool(self.keys))
        for client in self._clients():
            self.tasks.start(client.run)
        began = self.now
        self.chaos_seconds += began
        self._schedule_faults()
        await self.run_until(self.chaos_seconds)
        self._stop_faults()
        if self.rules.directories > 1:
            await self.storage.settle_without_broken_disks()
            await self.storage.mend()
        await self._check_liveness()
        if self.rules.directories > 1:
            await self.storage.check_moves()
        epochs = max(
            state.leader_epoch
            for topic in self.controller.image.topics.by_id.values()
            for state in topic.partitions.values()
        )
        return PartitionsResult(
            self.seed,
            self.acked,
            max((history.end for history in self.checker.histories.values()), default=0),
            epochs,
            self.events,
            self.happened,
            self.checker.evaluations,
            self.now,
        )

    def _broker_ids(self) -> range:
        return range(1, self.rules.brokers + 1)

    def _stop_faults(self) -> None:
        self.say("faults stop")
        self.faults.stop()
        self.is_calm = True
        self.network.cut.clear()
        self.network.isolated.clear()
        self.network.slow.clear()
        self._mend()
        for broker in self.brokers.values():
            broker.calm_disks()
            self.restart_of(broker)()

    async def _check_liveness(self) -> None:
        """Checks L1: producers continue, and all replicas return into sync; then, without producers, all replicas are
        equal and no task is busy in a loop.
        """
        acked = self.acked
        if not await self.run_until(
            self.now + self.recovery_seconds, lambda: self.acked > acked + 3 and self._is_in_order()
        ):
            raise Violation(
                f"L1 no order in {self.recovery_seconds} s without faults: {self._states()}"
            )
        self.produce_seconds = 1e9
        await self._rest()
        fetches = self.fetches
        await self.run_until(self.now + QUIET_SECONDS)
        per_second = (self.fetches - fetches) / QUIET_SECONDS
        if per_second > self.fetches_per_second_max:
            raise Violation(f"L1 {per_second:.0f} fetches a second though nothing happens")
        self.checker.count("L1")
        # A coordinator may have written just now, for example about members that left.
        await self._rest()
        self.checker.agree()

    async def _rest(self) -> None:
        if not await self.run_until(self.now + self.recovery_seconds, self._is_quiet):
            raise Violation(f"L1 no rest in {self.recovery_seconds} s: {self._states()}")

    def _is_in_order(self) -> bool:
        for key in self.keys:
            state = self.state_of(key)
            if state is None or state.leader < 0 or set(state.isr) != set(state.replicas):
                return False
        return bool(self.keys)

    def _used_keys(self) -> list[Key]:
        """Returns the partitions that brokers have opened."""
        return self.keys

    def _is_quiet(self) -> bool:
        for key in self._used_keys():
            state = self.state_of(key)
            if state is None or (leader := self.leader_epoch(key, state)) is None:
                return False
            end = leader.log.log_end_offset
            for member in state.replicas:
                partition = self.brokers[member].partitions.find(
                    TopicPartition(self.name_of(key), key[1])
                )
                log = None if partition is None else partition.open_log
                if log is None or partition is None:
                    if end:
                        return False
                elif log.log_end_offset != end or partition.high_watermark != end:
                    return False
        return True

    def _states(self) -> str:
        found = []
        for key in self.keys:
            state = self.state_of(key)
            found.append(f"{self.name_of(key)}-{key[1]} {state}")
            for broker in self.brokers.values():
                partition = broker.partitions.find(TopicPartition(self.name_of(key), key[1]))
                leader = None if partition is None else partition.leader_or_none
                log = None if partition is None else partition.open_log
                found.append(f"broker {broker.id} {leader or partition} {log}")
        return "; ".join(found)


def _told(state: PartitionImage) -> list[object]:
    told: list[object] = ["leader", state.leader, "epoch", state.leader_epoch, "isr", state.isr]
    if state.elr:
        told += ["elr", state.elr]
    if state.adding or state.removing:
        told += ["replicas", state.replicas]
    return told


def run_seed(seed: int, **options: Any) -> Result:
    """Runs one seed.

    Raises:
        Violation: with the seed in a note.
    """
    try:
        return World(seed, **options).run()
    except Exception as error:
        error.add_note(f"seed {seed}: ./dev simulate --partitions --seed {seed}")
        raise
