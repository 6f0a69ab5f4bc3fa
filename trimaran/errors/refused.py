"""User-facing errors for refusals of the cluster: error codes in its responses, and unknown names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from trimaran.errors.similar import did_you_mean
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import plural_of
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.node.config import group_keys, topic_keys
    from trimaran.quorum.metadata import image
else:
    group_keys = imported_later("trimaran.node.config.group_keys")
    topic_keys = imported_later("trimaran.node.config.topic_keys")
    image = imported_later("trimaran.quorum.metadata.image")


_PATTERN = frozenset("*?[")


def is_pattern(word: str) -> bool:
    """Returns whether a word is a pattern of shells, such as 'orders-*'; topics have no such names."""
    return not _PATTERN.isdisjoint(word)


class UnknownName(UserError):
    """The cluster has nothing with these names, but perhaps with similar ones. `kind` is a noun, such as `topic`."""

    def __init__(self, kind: str, *names: str, why: str, fix: str) -> None:
        what = f"there is no {kind}" if len(names) == 1 else f"there are no {plural_of(kind)}"
        super().__init__(f"{what} {', '.join(names)}", why, fix, exit_code=Exit.REFUSED)
        self.kind, self.names = kind, names

    def suggest(self, known: Collection[str]) -> None:
        """Adds similar names to the error, if there are any."""
        for name in self.names:
            if (question := did_you_mean(name, known)) is not None:
                of = "" if len(self.names) == 1 else f"{name}: "
                self.why = f"{self.why}; {of}{question}"


def all_missing(errors: Sequence[UnknownName]) -> UnknownName:
    """Returns one error with the names of several errors, all of one kind."""
    first = errors[0]
    names = [name for error in errors for name in error.names]
    return UnknownName(first.kind, *names, why=first.why, fix=first.fix)


def no_topic(name: str, why: str = "no broker knows it") -> UnknownName:
    if is_pattern(name):
        return _no_match("topic", name)
    fix = f"trimaran topics list shows all topics; trimaran topics create {name} creates it"
    return UnknownName("topic", name, why=why, fix=fix)


def no_group(name: str) -> UnknownName:
    if is_pattern(name):
        return _no_match("group", name)
    fix = "trimaran groups list shows all groups"
    return UnknownName("group", name, why="no coordinator knows it", fix=fix)


def group_of_other_kind(name: str, kind: str, why: str) -> UserError:
    """Returns the refusal of a group that is not of the kind which a command needs."""
    return UserError(
        f"{name} is no {kind} group",
        why,
        f"name another group; trimaran groups describe {name} shows this one",
        exit_code=Exit.REFUSED,
    )


def _no_match(kind: str, pattern: str) -> UnknownName:
    why = f"it is a pattern, which no {kind} matches or this command does not take"
    fix = f"trimaran {kind}s list '{pattern}' shows the {kind}s that match"
    return UnknownName(kind, pattern, why=why, fix=fix)


def no_user(name: str) -> UnknownName:
    if is_pattern(name):
        return _no_match("user", name)
    fix = "trimaran users list shows them"
    return UnknownName("user", name, why="the cluster has no password of that name", fix=fix)


def no_broker(broker: int, registered: Iterable[int]) -> UnknownName:
    why = f"the registered brokers are {', '.join(map(str, registered))}"
    return UnknownName("broker", str(broker), why=why, fix="trimaran brokers list shows them")


def ensure_brokers_run(wanted: Collection[int], running: Collection[int]) -> None:
    """Raises UserError for brokers that are not running."""
    error = not_live(wanted, running)
    if error is not None:
        raise error


def not_live(wanted: Collection[int], running: Collection[int]) -> UserError | None:
    """Returns the error for brokers that are not running, if there are any."""
    missing = sorted(set(wanted) - set(running))
    if not missing:
        return None
    named = ", ".join(map(str, missing))
    return UserError(
        f"broker {named} is not live" if len(missing) == 1 else f"brokers {named} are not live",
        f"the live brokers are {', '.join(map(str, sorted(running)))}",
        "trimaran brokers list shows all that are registered",
        exit_code=Exit.REFUSED,
    )


class Needs(NamedTuple):
    """The right that a request needs: an operation, such as `READ`, on the named resources, or on the cluster if none
    is named. Brokers word a denial in several ways, and many name neither; commands show the form of `denied`.
    """

    operation: str
    topic: str = ""
    group: str = ""
    transactional_id: str = ""

    def denied(self, code: ErrorCode) -> KafkaError | None:
        """Returns the error for a denial; None for another code."""
        on = {
            ErrorCode.TOPIC_AUTHORIZATION_FAILED: self._topic,
            ErrorCode.GROUP_AUTHORIZATION_FAILED: f"group {self.group}",
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"transactional id {self.transactional_id}",
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
        }.get(code)
        return None if on is None else KafkaError(code, f"no {self.operation} for {on}")

    @property
    def _topic(self) -> str:
        return f"topic {self.topic}" if self.topic else f"a topic of group {self.group}"


def check_topic(
    name: str, code: int, message: str | None = None, operation: str = "DESCRIBE"
) -> None:
    """Raises the error of a response about a topic: UserError if there is no such topic, else KafkaError. The request
    needs the right to the operation.
    """
    is_unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if is_unknown or (code == ErrorCode.INVALID_TOPIC_EXCEPTION and is_pattern(name)):
        raise no_topic(name)
    check(code, message, f"topic {name}", Needs(operation, topic=name))


def check_resource(
    resource_type: int, name: str, code: int, message: str | None, operation: str
) -> None:
    """Like `check_topic`, for a resource with configs that is a topic."""
    if resource_type == image.TOPIC_RESOURCE:
        check_topic(name, code, message, operation)
    else:
        check(code, message, name, Needs(operation, group=name))


def check_transactional_id(name: str, code: int) -> None:
    """Like `check_topic`, for a transactional id."""
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        why = "its coordinator does not know it: it was never used, or has expired"
        fix = "trimaran transactions list shows all transactional ids"
        raise UnknownName("transactional id", name, why=why, fix=fix)
    needs = Needs("DESCRIBE", transactional_id=name)
    check(code, None, f"transactional id {name}", needs)


def check_group(
    name: str, code: int, message: str | None = None, operation: str = "DESCRIBE"
) -> None:
    """Like `check_topic`, for a group."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise no_group(name)
    check(code, message, f"group {name}", Needs(operation, group=name))


def refused(error: KafkaError) -> UserError:
    """Returns the user-facing error for an error code of the cluster."""
    name = error.code.name
    said = "" if error.is_bare else f": {error.message}"
    fix = _fix_of_config(error.message) or _fix_of(name)
    return UserError("the cluster refused", f"{name}{said}", fix, exit_code=Exit.REFUSED)


_UNKNOWN_CONFIG = re.compile(r"Unknown (topic|group) config name: (\S+)")


def _fix_of_config(message: str) -> str | None:
    """Returns a similar config, if the message is about an unknown one."""
    found = _UNKNOWN_CONFIG.search(message)
    if found is None:
        return None
    kind, name = found.groups()
    known = topic_keys.TOPIC_CONFIGS if kind == "topic" else group_keys.GROUP_CONFIGS
    question = did_you_mean(name, known, most=3)
    all_shown = f"trimaran configs get {kind}/NAME --all shows all configs"
    return all_shown if question is None else f"{question} {all_shown}"


def _fix_of(name: str) -> str:
    if name in FIXES:
        return FIXES[name]
    return next((fix for part, fix in FIXES_BY_PART.items() if part in name), DEFAULT_FIX)


def check(code: int, message: str | None, about: str = "", needs: Needs | None = None) -> None:
    """Raises the KafkaError of a response, if it has one. `about` describes its subject, and replaces a message that
    adds nothing to the code. `needs` is the right that the request needs.
    """
    if code:
        raise error_about(ErrorCode.of(code), message, about, needs)


def error_about(
    code: ErrorCode, message: str | None, about: str, needs: Needs | None = None
) -> KafkaError:
    """Returns the error of a response with its message, or `about` if the message adds nothing to the code; a denial of
    `needs` in the form of all denials.
    """
    denied = None if needs is None else needs.denied(code)
    if denied is not None:
        return denied
    error = KafkaError(code, message or "")
    return KafkaError(code, about) if error.is_bare else error


DEFAULT_FIX = "trimaran quorum status and trimaran partitions list show the state of the cluster"
# Remedies by a part of the error's name; the first part that matches applies.
FIXES_BY_PART = {
    "AUTHORIZATION": "add an ACL that allows it (trimaran acls add), or log in as another user with --command-config",
    "UPDATE_VERSION": "trimaran features list shows the supported levels",
    "TOKEN": "to create and renew tokens, log in over SASL or TLS, and set delegation.token.secret.key on all "
    "nodes",
    "INVALID": "correct what is named above, then try again",
    "UNSUPPORTED": "trimaran features list shows what this cluster can do",
}
FIXES = {
    "UNKNOWN_TOPIC_OR_PARTITION": "trimaran topics list shows all topics",
    "TOPIC_ALREADY_EXISTS": "choose another name, or trimaran topics delete it first",
    "INVALID_REPLICATION_FACTOR": "use at most as many replicas as there are live brokers: trimaran brokers list",
    "OFFSET_OUT_OF_RANGE": "name one of them, start or end",
    "MESSAGE_TOO_LARGE": "raise the topic's max.message.bytes (trimaran configs set topic/NAME …),"
    " or send smaller records",
    "UNKNOWN_MEMBER_ID": "the group has members: stop its consumers, then try again",
    "SECURITY_DISABLED": "to use ACLs, set authorizer.class.name in the file of every node",
    "BROKER_ID_NOT_REGISTERED": "trimaran brokers list shows all registrations",
    "CONTROLLER_ID_NOT_REGISTERED": "trimaran metadata ls image/cluster/controllers shows all registrations",
    "DELEGATION_TOKEN_NOT_FOUND": "this is the HMAC of no token: trimaran tokens list shows them",
    "DELEGATION_TOKEN_OWNER_MISMATCH": "log in as the owner of the token, or as one of its renewers",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "log in over SASL or TLS, and not with a token",
    "GROUP_ID_NOT_FOUND": "trimaran groups list shows all groups",
    "GROUP_SUBSCRIBED_TO_TOPIC": "a member consumes the topic: stop it, then try again",
}
