"""`quorum voters add|remove`: adds or removes voters, one at a time (KIP-853), like Kafka's kafka-metadata-quorum with
controllers. `quorum unregister`: removes the registration of a lost controller (KIP-1312).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trimaran.cli.connect import CONTROLLERS, Controllers, DryRun
from trimaran.cli.node_file import ConfigFile
from trimaran.cli.output import say
from trimaran.client import quorum_voters
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.directories import meta_properties
from trimaran.quorum.observing import description
from trimaran.settings import node_config, properties
from trimaran.wire.buffers import primitives
from trimaran.wire.identity import NodeId

if TYPE_CHECKING:
    from collections.abc import Callable

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
        f"{listener.name}://{listener.host}:{listener.port}" for listener in listeners
    )
    named = _named(identity.node_id, identity.directory_id)
    _ask(
        controllers,
        lambda client: quorum_voters.add_voter(
            client,
            identity.cluster_id,
            NodeId(identity.node_id),
            identity.directory_id,
            listeners,
        ),
        dry_run,
        f"add {named} at {where}",
    )
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
    directory = _directory_of(controllers, node_id) if directory_id is None else _uuid(directory_id)
    _ask(
        controllers,
        lambda client: quorum_voters.remove_voter(client, node_id, directory),
        dry_run,
        f"remove {_named(node_id, directory)}",
    )
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
    if dry_run:
        with controllers.connected() as client:
            quorum_voters.ensure_registered(client, node_id)
    _ask(
        controllers,
        lambda client: quorum_voters.unregister(client, node_id),
        dry_run,
        f"unregister controller {node_id}",
    )
    if not dry_run:
        with controllers.connected() as client:
            quorum = description.describe_quorum(client, timeout=controllers.leader_seconds)
        if why := quorum_voters.why_it_may_return(node_id, quorum):
            say(why)
    return Exit.OK


def _ask(
    controllers: Controllers, ask: Callable[[BlockingClient], None], dry_run: bool, what: str
) -> None:
    if dry_run:
        say(f"would {what}")
        return
    with controllers.connected() as client:
        ask(client)
    say(f"done: {what}")


def _directory_of(controllers: Controllers, node_id: NodeId) -> bytes:
    with controllers.connected() as client:
        voters = description.describe_quorum(
            client, timeout=controllers.leader_seconds
        ).current_voters
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
