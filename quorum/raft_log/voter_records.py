"""Control records of the quorum: conversion between the core's values and the bytes of log and snapshots, and the
resulting history.

Source: KIP-853; Kafka's `KRaftControlRecordStateMachine`, `VoterSet.fromVotersRecord`. Kafka writes all of them in
version 0.
"""

from __future__ import annotations

from trimaran.log.batches.batch import BatchView, Buffer, iter_batches
from trimaran.log.batches.control_records import build_control_batch, read_control_records
from trimaran.quorum.raft.ready import ControlBatch, ControlRecord, KRaftVersionChange, LeaderChange
from trimaran.quorum.raft.types import ReplicaKey, VoterEndpoint
from trimaran.quorum.raft.voters import QuorumHistory, Voter, VoterSet
from trimaran.wire.identity import NodeId, Offset
from trimaran.wire.messages import control
from trimaran.wire.messages.control import ControlType, ControlValue


def encode_control_batch(batch: ControlBatch, now_ms: int) -> bytes:
    """Returns the encoded batch, without offset and epoch."""
    return build_control_batch([_typed(record) for record in batch.records], timestamp_ms=now_ms)


def _typed(record: ControlRecord) -> tuple[ControlType, ControlValue]:
    if isinstance(record, LeaderChange):
        return ControlType.LEADER_CHANGE, _leader_change(record)
    if isinstance(record, KRaftVersionChange):
        return kraft_version_record(record.version)
    return voters_record(record.voters)


def _leader_change(change: LeaderChange) -> control.LeaderChangeMessage:
    return control.LeaderChangeMessage(
        version=0,
        leader_id=change.leader_id,
        voters=[control.LeaderChangeMessageVoter(voter_id=voter) for voter in change.voters],
        granting_voters=[
            control.LeaderChangeMessageVoter(voter_id=voter) for voter in change.granting_voters
        ],
    )


def kraft_version_record(version: int) -> tuple[ControlType, control.KRaftVersionRecord]:
    record = control.KRaftVersionRecord(version=0, kraft_version=version)
    return ControlType.KRAFT_VERSION, record


def voters_record(voters: VoterSet) -> tuple[ControlType, control.VotersRecord]:
    return ControlType.KRAFT_VOTERS, control.VotersRecord(
        version=0,
        voters=[
            control.VotersRecordVoter(
                voter_id=voter.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    control.Endpoint(name=endpoint.name, host=endpoint.host, port=endpoint.port)
                    for endpoint in voter.endpoints
                ],
                kraft_version_feature=control.KRaftVersionFeature(
                    min_supported_version=voter.kraft_version_min,
                    max_supported_version=voter.kraft_version_max,
                ),
            )
            for voter in voters
        ],
    )


def read_voters(record: control.VotersRecord) -> VoterSet:
    return VoterSet.of(
        Voter(
            ReplicaKey(NodeId(voter.voter_id), voter.voter_directory_id),
            tuple(
                VoterEndpoint(endpoint.name, endpoint.host, endpoint.port)
                for endpoint in voter.endpoints
            ),
            voter.kraft_version_feature.min_supported_version,
            voter.kraft_version_feature.max_supported_version,
        )
        for voter in record.voters
    )


def note_batch(history: QuorumHistory, batch: BatchView) -> None:
    """Notes the control records about the quorum in a batch of the log.

    Raises:
        RemoteProtocolError: a control record is malformed.
    """
    if not batch.is_control:
        return
    for record in read_control_records(batch):
        _note(history, record.offset, record.value)


def note_snapshot(history: QuorumHistory, end_offset: Offset, data: Buffer) -> None:
    """Restarts the history with the control records of a snapshot of everything below `end_offset`.

    Raises:
        RemoteProtocolError: a control record is malformed.
    """
    history.clear()
    for batch in iter_batches(memoryview(data)):
        if batch.is_control:
            for record in read_control_records(batch):
                _note(history, end_offset - 1, record.value)


def _note(history: QuorumHistory, offset: Offset, value: ControlValue | None) -> None:
    if isinstance(value, control.VotersRecord):
        history.set_voters(offset, read_voters(value))
    elif isinstance(value, control.KRaftVersionRecord):
        history.set_kraft_version(offset, value.kraft_version)
