"""Requests that a broker passes on to the active controller, bytes and all, without a look inside.

The controller decides, and authorizes them for the client's principal (`broker/channels/forwarding.py`). Here is only
what to answer if that fails. What needs a look inside has a handler of its own: topics that are made or deleted (the
broker waits until it knows), configs (some are its own), new tokens.
Source: Kafka's `KafkaApis.forwardToController`, `ForwardingManager`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from trimaran.broker.handlers.context import Context
from trimaran.quorum.controller.acls import fail_create, fail_delete
from trimaran.quorum.controller.client_quotas import fail_alter_quotas
from trimaran.quorum.controller.scram import fail_alter_scram
from trimaran.quorum.serving.authorization import may_ask_for_tokens
from trimaran.quorum.serving.refusals import (
    fail_alter_reassignments,
    fail_create_partitions,
    fail_elect_leaders,
    fail_expire_token,
    fail_renew_token,
)
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.add_raft_voter import AddRaftVoterRequest
from trimaran.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from trimaran.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from trimaran.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from trimaran.wire.messages.create_acls import CreateAclsRequest
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest
from trimaran.wire.messages.delete_acls import DeleteAclsRequest
from trimaran.wire.messages.describe_quorum import DescribeQuorumRequest
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest
from trimaran.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from trimaran.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from trimaran.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from trimaran.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from trimaran.wire.messages.unregister_broker import UnregisterBrokerRequest
from trimaran.wire.messages.update_features import UpdateFeaturesRequest
from trimaran.wire.schema import DECODE_BUDGET, Message
from trimaran.wire.transport.requests.access import BY_CONTROLLER
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import (
    DECISION_ELEMENTS_MAX,
    FEW_ELEMENTS_MAX,
    MANY_ELEMENTS_MAX,
)
from trimaran.wire.transport.requests.error_answers import OnError
from trimaran.wire.transport.requests.handles import handles

Check = Callable[[Context, Call], None]


class Row(NamedTuple):
    """`on_error` and `elements_max` as of `handles`; `check` raises KafkaError for what is refused here."""

    request: type[Message]
    versions: str
    on_error: OnError | None = None
    check: Check | None = None
    elements_max: int = DECODE_BUDGET.elements_max


def _check_tokens(ctx: Context, call: Call) -> None:
    """The controller does not see how the client came."""
    if not may_ask_for_tokens(ctx, call.connection):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


ROWS = (
    Row(AddRaftVoterRequest, "0-1", elements_max=FEW_ELEMENTS_MAX),
    Row(AlterClientQuotasRequest, "0-1", fail_alter_quotas, elements_max=MANY_ELEMENTS_MAX),
    Row(
        AlterPartitionReassignmentsRequest,
        "0-1",
        fail_alter_reassignments,
        elements_max=DECISION_ELEMENTS_MAX,
    ),
    Row(AlterUserScramCredentialsRequest, "0", fail_alter_scram, elements_max=MANY_ELEMENTS_MAX),
    Row(CreateAclsRequest, "0-3", fail_create, elements_max=MANY_ELEMENTS_MAX),
    Row(CreatePartitionsRequest, "0-3", fail_create_partitions, elements_max=DECISION_ELEMENTS_MAX),
    Row(DeleteAclsRequest, "0-3", fail_delete, elements_max=MANY_ELEMENTS_MAX),
    Row(DescribeQuorumRequest, "0-2", elements_max=FEW_ELEMENTS_MAX),
    Row(ElectLeadersRequest, "0-2", fail_elect_leaders, elements_max=DECISION_ELEMENTS_MAX),
    Row(ExpireDelegationTokenRequest, "0-2", fail_expire_token, _check_tokens),
    Row(ListPartitionReassignmentsRequest, "0", elements_max=DECISION_ELEMENTS_MAX),
    Row(RemoveRaftVoterRequest, "0"),
    Row(RenewDelegationTokenRequest, "0-2", fail_renew_token, _check_tokens),
    Row(UnregisterBrokerRequest, "0"),
    Row(UpdateFeaturesRequest, "0-2", elements_max=FEW_ELEMENTS_MAX),
)


def _handler(row: Row) -> Callable[..., Any]:
    @handles(
        row.request,
        versions=row.versions,
        access=BY_CONTROLLER,
        on_error=row.on_error,
        elements_max=row.elements_max,
        takes_frame=True,
    )
    async def forward_request(frame: bytes, ctx: Context, call: Call) -> Outgoing:
        if row.check is not None:
            row.check(ctx, call)
        return await ctx.forwarder.forward_frame(frame, call)

    return forward_request


FORWARDED_HANDLERS: tuple[Callable[..., Any], ...] = tuple(map(_handler, ROWS))
