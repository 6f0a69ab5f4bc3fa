"""`quorum voters add|remove`: adds or removes voters, one at a time (KIP-853), like Kafka's kafka-metadata-quorum with
controllers. `quorum unregister`: removes the registration of a lost controller (KIP-1312).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from trimaran.cli.connect import CONTROLLERS, Controllers, DryRun
from trimaran.cli.node_file import ConfigFile
from trimaran.cli.output import say
from trimaran.client import quorum_voters
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.directories import meta_properties
from trimaran.quorum.observing import description
from trimaran.settings import node_config, properties
from trimaran.wire.buffers import primitives
from trimaran.wire.identity import Address, NodeId

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


def add(
    *,
    config: ConfigFile,
    dry_run: DryRun = False,
    controllers: Controllers = CONTROLLERS,
) -> int:
    """Makes a running controller that has caught up a voter.

    Args:
        config: The properties file of that controller; its log directory must be on this machine.
    """
    settings = node_config.parse_config(properties.load(config, [], os.environ))
    if not settings.is_controller:
        raise UserError(
            f"{config} is not the file of a controller",
            f"process.roles is {','.join(settings['process.roles'])}",
            "name the file of the controller that is to become a voter",
            exit_code=Exit.USAGE,
        )
    identity = meta_properties.MetaProperties.load(settings.metadata_directory)
    listeners = [
        quorum_voters.VoterListener(
            name=advertised_controller_listener.name,
            host=advertised_controller_listener.host or "localhost",
            port=advertised_controller_listener.port,
        )
        for advertised_controller_listener in settings.advertised_controller_listeners
    ]
    where = ", ".join(
        f"{listener.name}://{Address(listener.host, listener.port)}" for listener in listeners
    )
    what = f"add {_named(identity.node_id, identity.directory_id)} at {where}"
    node = (identity.cluster_id, NodeId(identity.node_id), identity.directory_id)
    with controllers.connected() as client:
        if dry_run:
            quorum_voters.ensure_addable(client, _quorum(client, controllers), *node)
        else:
            quorum_voters.add_voter(client, *node, listeners)
    _tell(what, dry_run)
    return Exit.OK


def remove(
    node_id: NodeId,
    *,
    directory_id: str | None = None,
    dry_run: DryRun = False,
    controllers: Controllers = CONTROLLERS,
) -> int:
    """Makes a voter an observer. Works for the leader, too, and for a voter that is gone for good.

    Args:
        node_id: The node id of the voter.
        directory_id: The directory id of the voter; by default that of the voter with this node id.
    """
    given = None if directory_id is None else _uuid(directory_id)
    with controllers.connected() as client:
        quorum = _quorum(client, controllers)
        directory = _directory_of(quorum, node_id) if given is None else given
        if dry_run:
            quorum_voters.ensure_removable(client, quorum, node_id, directory)
        else:
            quorum_voters.remove_voter(client, node_id, directory)
    _tell(f"remove {_named(node_id, directory)}", dry_run)
    return Exit.OK


def unregister(
    node_id: NodeId,
    *,
    dry_run: DryRun = False,
    controllers: Controllers = CONTROLLERS,
) -> int:
    """Removes the registration of a controller that will not return. A running controller registers again.

    Args:
        node_id: The node id of the controller. If it is a voter, remove the voter first.
    """
    what = f"unregister controller {node_id}"
    with controllers.connected() as client:
        if dry_run:
            quorum_voters.ensure_registered(client, node_id)
            _tell(what, dry_run)
            return Exit.OK
        quorum_voters.unregister(client, node_id)
        _tell(what, dry_run)
        if why := quorum_voters.why_it_may_return(node_id, _quorum(client, controllers)):
            say(why)
    return Exit.OK


def _tell(what: str, dry_run: bool) -> None:
    say(f"would {what}; nothing was changed" if dry_run else f"done: {what}")


def _quorum(client: BlockingClient, controllers: Controllers) -> Any:
    return description.describe_quorum(client, timeout=controllers.leader_seconds)


def _directory_of(quorum: Any, node_id: NodeId) -> bytes:
    voters = quorum.current_voters
    for voter in voters:
        if voter.replica_id == node_id:
            return bytes(voter.replica_directory_id)
    raise UserError(
        f"node {node_id} is not a voter",
        f"the voters are {', '.join(str(voter.replica_id) for voter in voters) or 'unknown'}",
        "trimaran quorum status shows them",
        exit_code=Exit.NO,
    )


def _named(node_id: NodeId, directory_id: bytes) -> str:
    return f"voter {node_id} with directory {primitives.uuid_to_text(directory_id)}"


def _uuid(text: str) -> bytes:
    try:
        return primitives.uuid_from_text(text)
    except ValueError as error:
        raise UserError(
            f"{text!r} is not a directory id",
            str(error),
            "it is directory.id in meta.properties; trimaran quorum replication shows it",
            exit_code=Exit.USAGE,
        ) from error
