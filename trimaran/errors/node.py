"""Errors about nodes that did not start or that stopped, in three lines: exceptions of lower layers become
`UserError`s.

Other exceptions are bugs and keep their tracebacks, in the node's log.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

from trimaran.errors.config import of_config
from trimaran.errors.extras import of_missing_module
from trimaran.errors.ports import listener_on
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.directories.directory_lock import DirectoryLocked
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.log.durability.health import StorageFailure
from trimaran.node.config.config_def import ConfigError
from trimaran.node.runtime.errors import WrongCluster
from trimaran.quorum.formatting.storage import FormatError
from trimaran.quorum.raft_log.damage import LogDamaged
from trimaran.quorum.raft_log.refetch import RefetchMarkDamaged
from trimaran.quorum.raft_log.snapshot_format import SnapshotDamaged
from trimaran.quorum.raft_log.supported_levels import MetadataTooNew
from trimaran.quorum.replica.quorum_state_file import QuorumStateError
from trimaran.wire.errors import ErrorCode, KafkaError

_LISTEN_ERRORS = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)


def explain(error: BaseException) -> UserError | None:
    """Returns the error for the user about the end of a node; None if a user cannot solve the problem."""
    for leaf in _leaves(error):
        if (of_extra := of_missing_module(leaf)) is not None:
            return of_extra
        for kind, explanation in _EXPLANATIONS:
            if isinstance(leaf, kind):
                return explanation(leaf)
        if type(leaf).__name__ == "RegistrationRefused":  # a controller must not load the broker
            return _of_refusal(leaf)
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for exception in error.exceptions:
            yield from _leaves(exception)
    else:
        yield error


def _of_user(error: UserError) -> UserError:
    return error


def _of_directory(error: MetaPropertiesError) -> UserError:
    why = str(error)
    if "not formatted" in why:
        return UserError(
            "the log directory is not formatted",
            why,
            "trimaran storage format -t CLUSTER_ID -c FILE, with the id that all nodes share",
        )
    if "belongs to" in why:
        return UserError(
            "the log directory belongs to another node or cluster",
            why,
            "correct node.id or log.dirs; never edit the meta.properties of a directory with data",
        )
    if "holds a metadata log" in why:
        return UserError(
            "the metadata log is in another log directory",
            why,
            "set metadata.log.dir to the directory that holds the log of this node",
        )
    return UserError(
        "the log directory cannot be identified", why, "restore meta.properties from a backup"
    )


def _of_format(error: FormatError) -> UserError:
    return UserError("cannot format", str(error), error.fix)


def _of_lock(error: DirectoryLocked) -> UserError:
    return UserError(
        "the log directory is in use",
        str(error),
        "stop the node that uses it, or give this one a log.dirs of its own",
    )


def _of_storage(error: StorageFailure) -> UserError:
    return UserError(
        "the node stopped: its log directory failed",
        str(error),
        "free space or repair the disk, then start again; acknowledged records are on it",
    )


def _of_kafka(error: KafkaError) -> UserError:
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return UserError(
            "the log directory failed, or cannot be used",
            error.message,
            "check that log.dirs exist, are writable, formatted and not full; acknowledged records are there",
        )
    return UserError(
        "the cluster refused",
        str(error),
        "trimaran quorum status and trimaran brokers list show its state",
    )


def _of_damage(error: Exception) -> UserError:
    return UserError(
        "the metadata of this node is damaged",
        str(error),
        "move the directory away, format it again, and let the node fetch from the others",
    )


def _of_only_voter(error: Exception) -> UserError:
    """Returns the error of the only voter, which needs a remedy: with other voters, the node would fetch the damaged
    records again.
    """
    return UserError(
        "the metadata of this node is damaged, and no other voter has it",
        str(error),
        "restore the directory from a backup; what is in no backup is lost",
    )


def _of_later_metadata(error: MetadataTooNew) -> UserError:
    return UserError(
        "the metadata of this cluster needs a later version of trimaran",
        str(error),
        "upgrade trimaran on this node and start it again on the same directory, which was left as it is",
        exit_code=Exit.TOO_NEW,
    )


def _of_refusal(error: BaseException) -> UserError:
    return UserError(
        "the quorum refused this node",
        str(error),
        "check that node.id is not used twice and that the directory belongs to this cluster: trimaran quorum status; "
        "trimaran brokers list",
        exit_code=Exit.REFUSED,
    )


def _of_os(error: OSError) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" for {error.filename}" if error.filename else ""
        return UserError(
            f"the disk is full{where}",
            error.strerror or str(error),
            "free some space and try again",
        )
    place = str(error.filename or "the system")
    port = place.rpartition(":")[2]
    if error.errno in _LISTEN_ERRORS and port.isdigit():
        by = listener_on(int(port))
        return UserError(
            f"cannot listen on {place}",
            f"{error.strerror}{f', by {by}' if by else ''}",
            "stop what listens there, or change listeners",
        )
    return UserError(
        f"cannot use {place}",
        error.strerror or str(error),
        "check the path, its permissions and the free space",
    )


_EXPLANATIONS: tuple[tuple[type[BaseException], Callable[..., UserError]], ...] = (
    (UserError, _of_user),
    (ConfigError, of_config),
    (MetaPropertiesError, _of_directory),
    (FormatError, _of_format),
    (DirectoryLocked, _of_lock),
    (StorageFailure, _of_storage),
    (QuorumStateError, _of_damage),
    (RefetchMarkDamaged, _of_damage),
    (LogDamaged, _of_only_voter),
    (SnapshotDamaged, _of_only_voter),
    (MetadataTooNew, _of_later_metadata),
    (WrongCluster, _of_refusal),
    (KafkaError, _of_kafka),
    (OSError, _of_os),
)
