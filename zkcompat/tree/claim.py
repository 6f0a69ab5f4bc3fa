"""The claim to be the tree's only writer, and its proof in every transaction. Pure.

Source: `KafkaZkClient.tryRegisterKRaftControllerAsActiveController` and `retryMigrationRequestsUntilConnected` of Kafka
3.9. A claim is one transaction: `/controller_epoch` is incremented at the version that was read, `/controller` is
replaced, `/migration` is set. Every later transaction checks the version of `/controller_epoch` and sets `/migration`
at its version; a writer that has lost its claim changes nothing. Two differences: Kafka set `/migration` after the
claim, here that is part of the claim; and `/controller` is ephemeral, so that a waiting mirror sees the active one die.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from trimaran.wire.identity import ControllerEpoch, LeaderEpoch, NodeId
from trimaran.zkcompat.tree.operations import ANY_VERSION, FoundZnode, OperationKind, TreeOperation
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.migration import Migration

StepKind = Literal["create", "set", "delete", "check"]


@dataclass(frozen=True, slots=True)
class TransactionStep:
    """One operation of a transaction, with the required version (by default any)."""

    kind: StepKind
    path: str
    data: bytes | None = None
    version: int = ANY_VERSION
    ephemeral: bool = False
    sequential: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class QuorumLeader:
    """The leader of the quorum and its raft epoch."""

    id: NodeId
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class ClaimGuard:
    """The claim's znodes as the active mirror knows them; created by `claim_steps`, moved by `advanced`."""

    controller_epoch: ControllerEpoch
    controller_epoch_version: int
    migration: Migration
    migration_version: int

    def proof(self, migration: Migration) -> list[TransactionStep]:
        """Returns the two steps at the beginning of every transaction; `migration` is the new `/migration`."""
        return [
            TransactionStep(
                "check", ControllerEpochZnode.PATH, version=self.controller_epoch_version
            ),
            TransactionStep("set", Migration.PATH, migration.encode(), self.migration_version),
        ]

    def advanced(self, migration: Migration) -> ClaimGuard:
        """Returns the guard after an accepted transaction that wrote `migration`."""
        return replace(self, migration=migration, migration_version=self.migration_version + 1)


GUARD_STEPS = 2
_KINDS: dict[OperationKind, StepKind] = {
    OperationKind.CREATE: "create",
    OperationKind.SET: "set",
    OperationKind.DELETE: "delete",
}


def claim_steps(
    leader: QuorumLeader,
    now_ms: int,
    controller_epoch: FoundZnode,
    controller: FoundZnode | None,
    migration: FoundZnode,
    *,
    dirty: bool,
) -> tuple[list[TransactionStep], ClaimGuard]:
    """Returns the claim's transaction and the guard that holds once it is accepted.

    A published offset survives the claim, marked `dirty` unless the claimant knows the tree; a damaged `/migration`
    counts as never written. A damaged epoch counts as 0: the version check still keeps two claims apart.
    """
    known = decode_or_none(ControllerEpochZnode.decode, controller_epoch.data)
    epoch = ControllerEpoch((known.epoch if known else 0) + 1)
    state = decode_or_none(Migration.decode, migration.data) or Migration()
    state = replace(state, controller_id=leader.id, controller_epoch=leader.epoch, dirty=dirty)
    steps = [
        TransactionStep(
            "set",
            ControllerEpochZnode.PATH,
            ControllerEpochZnode(epoch).encode(),
            controller_epoch.version,
        )
    ]
    if controller is not None:
        steps.append(TransactionStep("delete", ControllerZnode.PATH, version=controller.version))
    claim = ControllerZnode(leader.id, now_ms, leader.epoch).encode()
    steps.append(TransactionStep("create", ControllerZnode.PATH, claim, ephemeral=True))
    steps.append(TransactionStep("set", Migration.PATH, state.encode(), migration.version))
    return steps, ClaimGuard(epoch, controller_epoch.version + 1, state, migration.version + 1)


def step_of(operation: TreeOperation) -> TransactionStep:
    """Returns a planned operation as a step."""
    return TransactionStep(
        _KINDS[operation.kind],
        operation.path,
        operation.data,
        operation.version,
        ephemeral=operation.ephemeral,
        sequential=operation.sequential,
        secret=operation.secret,
    )
