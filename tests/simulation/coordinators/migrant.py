"""An application that is redeployed with the other group protocol again and again, beside others that are not yet: its
group migrates online, both ways (KIP-848).
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
    """Has a member of each kind, one of which sleeps. Commits, reads back, changes its kind, vanishes."""

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
        """Most leave the group; the others vanish."""
        before = self._member
        before.is_frozen = True
        if self.world.prng.random() < 0.7:
            await before.leave()
        else:
            before.vanish()
        self._wake(1 - self._kind)
