"""ACLs that nothing enforces yet are refused: who wrote one would take a topic for protected that is open.

Controllers look, and brokers before they forward: their controllers may be Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable

from quorum.metadata.acls import known
from quorum.serving.enforced import ENFORCED
from wire.errors import ErrorCode
from wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from wire.security.acls import Operation, ResourceType

# Not about anything: the controller says what is wrong with them.
_INVALID = (Operation.UNKNOWN, Operation.ANY)

Merge = Callable[[CreateAclsResponse], CreateAclsResponse]


def enforced_part(request: CreateAclsRequest) -> tuple[CreateAclsRequest, Merge]:
    """The creations that may go on, and what puts the refusals of the others into the response to them, in order."""
    whys = [_why_unenforced(one) for one in request.creations]
    left = [one for one, why in zip(request.creations, whys, strict=True) if why is None]

    def merge(response: CreateAclsResponse) -> CreateAclsResponse:
        of_left = iter(response.results)
        results = [next(of_left) if why is None else _refused(why) for why in whys]
        return response.replace(results=results)

    return request.replace(creations=left), merge


def _why_unenforced(creation: AclCreation) -> str | None:
    resource_type = known(ResourceType, creation.resource_type)
    operation = known(Operation, creation.operation)
    enforced = ENFORCED.get(resource_type)
    if enforced is None or operation in enforced or operation in _INVALID:
        return None
    return (
        f"{operation.name} of a {resource_type.name} is not enforced by ACLs yet, it is open to anyone who can "
        f"connect: "
        "this ACL would protect nothing"
    )


def _refused(why: str) -> AclCreationResult:
    return AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=why)
