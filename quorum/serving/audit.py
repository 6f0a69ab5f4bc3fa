"""The audit log: each line has the principal, resource and request, the verdict, and the ACL that decided.

Its logger is `kafka.authorizer.logger`, as in Kafka. A denial of a named resource is logged at INFO. An allowed request
is logged at DEBUG, and so is a resource that was only omitted from a response. For a client that is denied repeatedly,
at most `LINES_MAX` lines are written per interval; the next line has the number of omitted ones. Source:
`StandardAuthorizerData`.
"""

from __future__ import annotations

import logging
import time

from trimaran.quorum.metadata.acls import Acl, known
from trimaran.quorum.metadata.authorizer import Action, Verdict
from trimaran.wire.messages.registry import REQUESTS
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType
from trimaran.wire.transport.requests.calls import Call

log = logging.getLogger("kafka.authorizer.logger")

# The maximum number of lines of about 300 bytes in an interval: at most three gigabytes a day. Kafka logs more at
# DEBUG.
LINES_MAX = 1000
INTERVAL_SECONDS = 10.0


class _Bound:
    """The numbers of lines written in this interval, and of lines omitted since the last one."""

    def __init__(self) -> None:
        self._until = 0.0
        self._written = 0
        self._left_out = 0

    def take(self) -> int:
        """Counts a line; returns the number of lines omitted before it, or -1 to omit this line, too."""
        now = time.monotonic()
        if now >= self._until:
            self._until, self._written = now + INTERVAL_SECONDS, 0
        if self._written >= LINES_MAX:
            self._left_out += 1
            return -1
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


_DENIED = _Bound()


def logs_every_verdict() -> bool:
    """Returns whether every verdict is logged; verdicts must not be cached then."""
    return log.isEnabledFor(logging.DEBUG)


def note(call: Call, action: Action, verdict: Verdict, *, asked_for: bool = True) -> None:
    """Logs a verdict. `asked_for`: the request named the resource, so a denial is a refusal."""
    refuses = asked_for and not verdict.allowed
    level = logging.INFO if refuses else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    left_out = _DENIED.take() if refuses else 0
    if left_out < 0:
        return
    connection, api = call.connection, REQUESTS[call.header.api_key]
    log.log(
        level,
        "%s principal=%a host=%s listener=%s operation=%s resource=%s:%a request=%s by=%s%s",
        "allowed" if verdict.allowed else "denied",
        str(connection.principal),
        connection.peer_text,
        connection.listener,
        action.operation.name,
        action.resource_type.name,
        action.resource_name,
        api.__name__.removesuffix("Request"),
        why(verdict),
        f" (and {left_out} more such lines left out)" if left_out else "",
    )


def why(verdict: Verdict) -> str:
    """Returns the ACL or the rule that determines a verdict."""
    return verdict.why if verdict.acl is None else shown(verdict.acl)


def shown(acl: Acl) -> str:
    """Returns an ACL as one line; names are escaped."""
    kind, pattern = known(ResourceType, acl.resource_type), known(PatternType, acl.pattern_type)
    permission, operation = known(Permission, acl.permission), known(Operation, acl.operation)
    return (
        f"{permission.name} {operation.name} to {acl.principal!a} from {acl.host!a} "
        f"on {kind.name}:{pattern.name}:{acl.resource_name!a}"
    )
