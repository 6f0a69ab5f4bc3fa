"""Disk faults of a run with several log directories per broker, and an operator's repairs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock
from uuid import UUID

from tests.simulation.checker import Violation
from tests.simulation.here import patched_here
from tests.simulation.partitions.checker import Key
from tests.simulation.partitions.copies import CopiesChecker
from tests.simulation.partitions.disk_faults import DiskFault
from tests.simulation.partitions.storing import StoringBroker
from trimaran.broker.background import directory_moves
from trimaran.broker.storage import broker_storage
from trimaran.log.directories import meta_properties
from trimaran.log.partitions import names
from trimaran.wire.identity import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.partitions.world import World
    from trimaran.log.directories.directory import LogDirectory
    from trimaran.quorum.metadata.image import PartitionImage


LOOK_SECONDS = 0.5


class StorageFaults:
    """The storage faults of one world. In each run small files are damaged on one broker only, because no other file
    has a copy of their content.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._damaged = 0

    def patches(self) -> tuple[AbstractContextManager[object], ...]:
        return (
            patched_here(broker_storage, "LogDirectory", self._open),
            patched_here(names.uuid, "uuid4", self._uuid),
            patched_here(meta_properties, "uuid4", self._uuid),
            mock.patch.object(directory_moves, "STEP_BYTES_MAX", self._world.rules.move_bytes),
        )

    def _open(self, path: Path, *, now_ms: object) -> LogDirectory:
        return self._brokers[int(path.parts[1])].open_directory(path)

    def _uuid(self) -> UUID:
        return UUID(int=self._world.prng.getrandbits(128))

    @property
    def _brokers(self) -> dict[int, StoringBroker]:
        return {
            broker.id: broker
            for broker in self._world.brokers.values()
            if isinstance(broker, StoringBroker)
        }

    def may_damage(self, broker: StoringBroker) -> bool:
        self._damaged = self._damaged or broker.id
        return self._damaged == broker.id

    def some_call_fails(self) -> None:
        """Arms a fault of one of the next calls in a random directory."""
        prng = self._world.prng
        broker = prng.choice(list(self._brokers.values()))
        broker.arm(DiskFault.draw(prng, self._world.faults.dies))

    def move_some_replica(self) -> None:
        """Requests the move of a random replica to a random directory, perhaps its current one or a failed one."""
        world = self._world
        broker = world.prng.choice(list(self._brokers.values()))
        if not broker.is_serving or not world.keys:
            return
        key = world.prng.choice(world.keys)
        path = world.prng.choice(list(broker.disks))
        name = world.name_of(key)
        partition = broker.partitions.find(TopicPartition(name, key[1]))
        before = None if partition is None else broker.moves.of(partition)
        code = broker.moves.request(TopicPartition(name, key[1]), str(path))
        world.say(broker.id, "is asked to move", f"{name}-{key[1]} to {path}:", code.name)
        world.happened["move refused" if code else "move asked for"] += 1
        if before is not None and before is not broker.moves.of(before.partition):
            world.happened["move given up"] += 1

    def disks_left(self, broker: StoringBroker) -> None:
        checker = self._world.checker
        assert isinstance(checker, CopiesChecker)
        checker.disks_left(broker)

    def _look_at_disks(self) -> None:
        checker = self._world.checker
        assert isinstance(checker, CopiesChecker)
        checker.look_at_all_disks()

    # --- the end

    async def settle_without_broken_disks(self) -> None:
        """Checks P25: replicas on disks that stay broken lead nothing, and all other replicas are complete."""
        world = self._world
        if not any(broker.is_lacking for broker in self._brokers.values()):
            return
        if any(broker.broken for broker in self._brokers.values()):
            world.happened["disk broken to the end"] += 1
        if not await world.run_until(world.now + world.recovery_seconds, self._is_in_order):
            raise Violation(f"P25 no order beside disks that have failed: {self._told()}")
        world.checker.count("P25")

    def _told(self) -> str:
        """Returns the state as text: first the controller's view, with numbered directories, then the brokers' view."""
        world, found = self._world, []
        brokers = world.controller.image.cluster.brokers
        for key in world.keys:
            state = world.state_of(key)
            assert state is not None
            told = [
                f"{member}: {directory[1]}{'' if brokers[member].has_online(directory) else ' offline'}"
                for member, directory in zip(state.replicas, state.directories, strict=True)
            ]
            found.append(
                f"{world.name_of(key)}-{key[1]} leader {state.leader} isr {state.isr} elr {state.elr} {told}"
            )
        found += [
            f"broker {broker.id} has {broker.directories.all}, broken {broker.broken}"
            for broker in self._brokers.values()
        ]
        return "; ".join(found)

    def _is_in_order(self) -> bool:
        world = self._world
        return bool(world.keys) and all(
            (state := world.state_of(key)) is not None
            and (self._is_led(state) or self._is_not_found(key, state))
            for key in world.keys
        )

    def _is_not_found(self, key: Key, state: PartitionImage) -> bool:
        """Whether the only ISR member has no log because a directory that may contain it could not be read; it then
        leads nothing, but stays in the ISR.
        """
        if len(state.isr) != 1 or state.elr:
            return False
        broker = self._brokers[state.isr[0]]
        if not broker.alive or not broker.directories.failed_at_start:
            return False
        named = TopicPartition(self._world.name_of(key), key[1])
        return broker.directories.holding(named) is None

    def _is_led(self, state: PartitionImage) -> bool:
        brokers = self._world.controller.image.cluster.brokers
        whole = {
            member
            for member, directory in zip(state.replicas, state.directories, strict=True)
            if brokers[member].has_online(directory)
        }
        if not whole.intersection((*state.isr, *state.elr)):
            return state.leader < 0
        return state.leader in whole and set(state.isr) == whole

    async def mend(self) -> None:
        """Restarts brokers with missing or broken disks, with everything restored, one after another, each once the
        others are in sync again.
        """
        world = self._world
        for broker in self._brokers.values():
            if broker.mend():
                if broker.alive:
                    broker.end(power_cut=False)
                world.after(0.01, world.restart_of(broker))
                await world.run_until(
                    world.now + world.recovery_seconds,
                    lambda broker=broker: broker.is_serving and self._is_in_order(),
                )
        await world.run_until(world.now + world.recovery_seconds, self._may_all_be_led)
        for key in world.keys:
            state, history = world.state_of(key), world.checker.histories[key]
            if state is not None and not self._may_be_led(state):
                # With eligible leader replicas, the last one may have been stopped uncleanly.
                may_be_empty = history.is_unclean or world.rules.elr
                world.checker.require(may_be_empty, "P25", "nobody leads", *history.committed[-1:])
                world.happened["elected anyway"] += 1
                world.say("an operator has somebody lead", world.name_of(key), key[1])
                world.controller.elect_anyway(world.name_of(key), key[1])

    def _may_all_be_led(self) -> bool:
        states = map(self._world.state_of, self._world.keys)
        return all(state is not None and self._may_be_led(state) for state in states)

    def _may_be_led(self, state: PartitionImage) -> bool:
        brokers = self._world.controller.image.cluster.brokers
        return state.leader >= 0 or any(
            brokers[member].has_online(state.directory_of(member))
            for member in (*state.isr, *state.elr, *state.last_known_elr)
        )

    def is_moved(self) -> bool:
        """Whether P24 holds: no move is in progress, and the controller knows the directory of every replica."""
        return all(map(self._is_settled, self._brokers.values()))

    def _is_settled(self, broker: StoringBroker) -> bool:
        for partition in broker.partitions:
            if broker.moves.of(partition) is not None:
                return False
            found = broker.directories.holding(partition.topic_partition)
            if found and found.directory_id != partition.state.directory_of(broker.id):
                return False
        return True

    async def check_moves(self) -> None:
        world = self._world
        if not await world.run_until(world.now + world.recovery_seconds, self.is_moved):
            raise Violation(f"P24 replicas are not where the controller thinks: {self._told()}")
        world.checker.count("P24")
        self._look_at_disks()
        wanted = await self._ask_for_moves()
        if not await world.run_until(world.now + world.recovery_seconds, self.is_moved):
            raise Violation(f"P24 moves have no end: {self._told()}")
        for (broker, name, index), path in wanted.items():
            found = broker.directories.holding(TopicPartition(name, index))
            where = None if found is None else found.path
            world.checker.require(
                where == path, *("P24", broker.id, f"{name}-{index} is in", where, "not", path)
            )
        for broker in self._brokers.values():
            for directory in broker.directories.online:
                left = list(directory.futures)
                world.checker.require(not left, "P24", directory, "has still copies of", left)
        self._look_at_disks()

    async def _ask_for_moves(self) -> dict[tuple[StoringBroker, str, int], Path]:
        """Requests two moves of each replica, the second perhaps before the first has ended; returns the target of each
        replica.
        """
        world, wanted = self._world, {}
        replicas = [
            (broker, partition.topic, partition.index)
            for broker in self._brokers.values()
            for partition in broker.partitions
            if broker.directories.holding(partition.topic_partition) is not None
        ]
        world.faults.slow_thread = 0.5
        for _ in range(2):
            for broker, name, index in replicas:
                path = world.prng.choice(list(broker.disks))
                if not broker.moves.request(TopicPartition(name, index), str(path)):
                    wanted[broker, name, index] = path
            await world.run_until(world.now + world.prng.uniform(0.0, 0.4))
        world.faults.slow_thread = 0.0
        return wanted

    def schedule(self) -> None:
        world = self._world
        world._every(world.faults.directory_fails_every, self.some_call_fails)
        world._every(world.faults.move_every, self.move_some_replica)
        world._every(LOOK_SECONDS, self._look_at_disks)
