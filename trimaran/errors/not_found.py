"""What a command names and the cluster does not have: told alike by all, not in the words of an error code."""

from __future__ import annotations

from collections.abc import Collection

from trimaran.client.connect import check
from trimaran.errors.user_error import Exit, UserError


def no_topic(name: str, why: str = "no broker knows it") -> UserError:
    return UserError(
        f"there is no topic {name}",
        why,
        f"trimaran topics list shows all topics; trimaran topics create {name} creates it",
        exit_code=Exit.REFUSED,
    )


def no_group(*names: str) -> UserError:
    return UserError(
        f"there is no group {', '.join(names)}",
        "no coordinator knows it",
        "trimaran groups list shows all groups",
        exit_code=Exit.REFUSED,
    )


def ensure_brokers_run(wanted: Collection[int], running: Collection[int]) -> None:
    """Raises UserError for those that cannot be asked, or given anything."""
    missing = sorted(set(wanted) - set(running))
    if missing:
        named = ", ".join(map(str, missing))
        raise UserError(
            f"broker {named} is not live" if len(missing) == 1 else f"brokers {named} are not live",
            f"the live brokers are {', '.join(map(str, sorted(running)))}",
            "trimaran brokers list shows all that are registered",
            exit_code=Exit.REFUSED,
        )


def check_topic(name: str, code: int, message: str | None = None) -> None:
    """Raises what an answer about this topic carries: UserError if there is none, else KafkaError."""
    from trimaran.wire.errors import ErrorCode

    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise no_topic(name)
    check(code, message or f"topic {name}")


def check_resource(resource_type: int, name: str, code: int, message: str | None) -> None:
    """As `check_topic` where the resource is one, of configs."""
    from trimaran.quorum.metadata.image import TOPIC_RESOURCE

    if resource_type == TOPIC_RESOURCE:
        check_topic(name, code, message)
    else:
        check(code, message)


def check_transactional_id(name: str, code: int) -> None:
    """As `check_topic`, of a transactional id."""
    from trimaran.wire.errors import ErrorCode

    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise UserError(
            f"there is no transactional id {name}",
            "its coordinator does not know it: it was never used, or has expired",
            "trimaran transactions list shows all transactional ids",
            exit_code=Exit.REFUSED,
        )
    check(code, f"transactional id {name}")


def check_group(name: str, code: int) -> None:
    """As `check_topic`, of a group."""
    from trimaran.wire.errors import ErrorCode

    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise no_group(name)
    check(code, f"group {name}")
