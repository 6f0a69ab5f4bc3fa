"""An application that is repeatedly redeployed with the other group protocol, next to instances that are not redeployed
yet: its group migrates online, in both directions (KIP-848).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tests.simulation.coordinators.applications import Committer
from tests.simulation.coordinators.client import GaveUp, Refused
from tests.simulation.coordinators.membership import ClassicMember, ConsumerMember, Member
from tests.simulation.coordinators.rules import INPUT

if TYPE_CHECKING:
    from tests.simulation.coordinators.world import CoordinatorWorld

GROUP_ID = "migrates"


class Migrant(Committer):
    """A committer with a member of each kind, one of which is frozen; it sometimes changes its kind."""

    def __init__(self, world: CoordinatorWorld, number: int) -> None:
        super().__init__(world, number, name=f"migrant{number}", group_id=GROUP_ID)
        self._members: tuple[Member, Member] = (
            ClassicMember(world, self.name, GROUP_ID),
            ConsumerMember(world, self.name, GROUP_ID),
        )
        for member in self._members:
            member.is_frozen = True
        self._wake(number % 2)

    def _wake(self, kind: int) -> None:
        self._kind = kind
        self._member = self._members[kind]
        self._member.is_frozen = False

    async def run(self) -> None:
        world = self.world
        for member in self._members:
            world.tasks.start(member.run)
        while not world.is_calm:
            await self.pause(0.1)
            with suppress(Refused, GaveUp):
                await self._member.settle()
                if self._member.owned:
                    await self._commit()
                if world.prng.random() < 0.2:
                    await self._member.positions(INPUT, set(range(world.rules.inputs)))
            if world.prng.random() < 0.2:
                await self._migrate()

    async def _migrate(self) -> None:
        """Changes the member's kind; the old member usually leaves the group, and otherwise vanishes."""
        before = self._member
        before.is_frozen = True
        if self.world.prng.random() < 0.7:
            await before.leave()
        else:
            before.vanish()
        self._wake(1 - self._kind)
