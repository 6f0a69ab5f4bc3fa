"""The claim: who may write the tree, and how every transaction proves it. Pure.

Source: `KafkaZkClient.tryRegisterKRaftControllerAsActiveController` and `retryMigrationRequestsUntilConnected` of Kafka
3.9. A claim is one transaction: `/controller_epoch` one up at the version that was read, `/controller` replaced,
`/migration` set. Every later transaction checks the version of `/controller_epoch` and sets `/migration` at its
version; a writer whose claim was overtaken changes nothing. Two differences: Kafka set `/migration` after the claim,
here it is part of it; and `/controller` is ephemeral, so that a waiting mirror sees the active one die.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from trimaran.zkcompat.tree.operations import Kind, Operation
from trimaran.zkcompat.tree.znode import FoundZnode
from trimaran.zkcompat.znodes.controller import Controller, ControllerEpoch
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.migration import Migration

StepKind = Literal["create", "set", "delete", "check"]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a transaction, with the version it insists on (-1: any)."""

    kind: StepKind
    path: str
    data: bytes | None = None
    version: int = -1
    ephemeral: bool = False
    sequential: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads the quorum, and in which raft epoch."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Guard:
    """What the active mirror knows of the claim's znodes; made by `claimed`, moved by `advanced`."""

    controller_epoch: int
    controller_epoch_version: int
    migration: Migration
    migration_version: int

    def proof(self, migration: Migration) -> list[Step]:
        """The two steps that every transaction begins with; `migration` is what it leaves behind."""
        return [
            Step("check", ControllerEpoch.PATH, version=self.controller_epoch_version),
            Step("set", Migration.PATH, migration.encode(), self.migration_version),
        ]

    def advanced(self, migration: Migration) -> Guard:
        """The guard after a transaction that left `migration` was accepted."""
        return replace(self, migration=migration, migration_version=self.migration_version + 1)


GUARD_STEPS = 2
_KINDS: dict[Kind, StepKind] = {
    Kind.CREATE: "create",
    Kind.SET: "set",
    Kind.DELETE: "delete",
}


def claim_steps(
    leader: Leader,
    now_ms: int,
    controller_epoch: FoundZnode,
    controller: FoundZnode | None,
    migration: FoundZnode,
    *,
    dirty: bool,
) -> tuple[list[Step], Guard]:
    """The claim's transaction and the guard that holds when it is accepted.

    A published offset survives the claim, marked `dirty` unless the claimant knows the tree; a damaged `/migration`
    counts as never written. A damaged epoch counts as 0: the version check still keeps two claims apart.
    """
    known = decode_or_none(ControllerEpoch.decode, controller_epoch.data)
    epoch = (known.epoch if known else 0) + 1
    state = decode_or_none(Migration.decode, migration.data) or Migration()
    state = replace(state, controller_id=leader.id, controller_epoch=leader.epoch, dirty=dirty)
    steps = [
        Step("set", ControllerEpoch.PATH, ControllerEpoch(epoch).encode(), controller_epoch.version)
    ]
    if controller is not None:
        steps.append(Step("delete", Controller.PATH, version=controller.version))
    claim = Controller(leader.id, now_ms, leader.epoch).encode()
    steps.append(Step("create", Controller.PATH, claim, ephemeral=True))
    steps.append(Step("set", Migration.PATH, state.encode(), migration.version))
    return steps, Guard(epoch, controller_epoch.version + 1, state, migration.version + 1)


def step_of(operation: Operation) -> Step:
    """A planned operation as a step."""
    return Step(
        _KINDS[operation.kind],
        operation.path,
        operation.data,
        operation.version,
        ephemeral=operation.ephemeral,
        sequential=operation.sequential,
        secret=operation.secret,
    )
