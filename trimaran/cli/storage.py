"""`storage format|info|random-uuid`: the log directories of a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from trimaran.cli.connect import DryRun
from trimaran.cli.output import put, say
from trimaran.errors.user_error import Exit
from trimaran.log.directories import meta_properties
from trimaran.node.config import providers as config_providers
from trimaran.node.config import server
from trimaran.quorum.formatting import initial_voters, scram, storage
from trimaran.quorum.metadata import features as metadata_features
from trimaran.quorum.metadata import versions
from trimaran.wire.buffers import primitives

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trimaran.quorum.raft.voters import VoterSet
    from trimaran.wire.records.security import UserScramCredentialRecord

from trimaran.cli.node_file import ConfigFile, Overrides, node_config


def storage_random_uuid() -> None:
    """Prints a new cluster id."""
    put(primitives.uuid_to_text(meta_properties.new_directory_id()))


def storage_format(
    *,
    config: ConfigFile,
    cluster_id: Annotated[str, Parameter(name=["-t", "--cluster-id"])],
    ignore_formatted: Annotated[bool, Parameter(name=["-g", "--ignore-formatted"])] = False,
    standalone: Annotated[bool, Parameter(name=["-s", "--standalone"])] = False,
    initial_controllers: Annotated[
        str | None, Parameter(name=["-I", "--initial-controllers"])
    ] = None,
    no_initial_controllers: Annotated[
        bool, Parameter(name=["-N", "--no-initial-controllers"])
    ] = False,
    feature: Annotated[list[str] | None, Parameter(name=["-f", "--feature"])] = None,
    release_version: Annotated[str | None, Parameter(name=["-r", "--release-version"])] = None,
    add_scram: Annotated[list[str] | None, Parameter(name=["-S", "--add-scram"])] = None,
    override: Overrides = None,
    dry_run: DryRun = False,
) -> int:
    """Formats the log directories of a node, as Kafka's kafka-storage format does.

    A controller without controller.quorum.voters belongs to a dynamic quorum: one of --standalone,
    --initial-controllers and --no-initial-controllers is needed.

    Args:
        config: The properties file of the node.
        cluster_id: The cluster id, the same for all nodes, from trimaran storage random-uuid.
        ignore_formatted: Skip directories that are already formatted, instead of refusing.
        standalone: This controller is the first and only voter.
        initial_controllers: The initial voters, ID@HOST:PORT:DIRECTORY_ID,…, the same text on each of them.
        no_initial_controllers: The quorum already exists; this controller joins it as an observer, and may become a
            voter.
        feature: FEATURE=LEVEL. May be repeated. metadata.version=LEVEL or =RELEASE (21 or 3.9) for a cluster with older
            nodes of Apache Kafka; other features follow it, so eligible.leader.replicas.version is 1 from 4.1 on unless
            set to 0. kraft.version is only checked: 1 in a dynamic quorum, else 0.
        release_version: The same as --feature metadata.version=RELEASE.
        add_scram: A user who can log in from the start, SCRAM-SHA-512=[name=alice,password=SECRET]. To keep SECRET out
            of the process list, write ${env:NAME} or ${file:PATH:KEY}. May be repeated.
    """
    settings = node_config(config, override)
    beginning = _beginning(
        settings,
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
        features=[*(feature or ()), *_of_release(release_version)],
        users=add_scram or (),
    )
    release = versions.release_name(
        beginning.levels.get(versions.METADATA_VERSION, metadata_features.METADATA_VERSION_LEVEL)
    )
    for directory in storage.format_directories(
        settings,
        cluster_id,
        ignore_formatted=ignore_formatted,
        voters=beginning.voters,
        features=beginning.levels,
        users=beginning.users,
        dry_run=dry_run,
    ):
        verb = "Would format" if dry_run else "Formatting"
        say(f"{verb} {directory} with metadata.version {release}")
    return Exit.OK


class _Beginning(NamedTuple):
    """The initial state of a cluster: its first voters (None: the configuration names them), feature levels, users."""

    voters: VoterSet | None
    levels: dict[str, int]
    users: list[UserScramCredentialRecord]


def _beginning(
    config: server.ServerConfig,
    *,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    features: list[str],
    users: Iterable[str],
) -> _Beginning:
    """Reads the options of `storage format`. Raises FormatError if they contradict each other, or are mistyped."""
    chosen = [standalone, initial_controllers is not None, no_initial_controllers]
    try:
        if sum(chosen) > 1:
            raise storage.FormatError("only one option can name the initial voters")
        levels = _feature_levels(features)
        kraft_version = levels.pop(versions.KRAFT_VERSION, None)
        storage.check_quorum_kind(config, is_dynamic=any(chosen), kraft_version=kraft_version)
        voters = _first_voters(config, standalone, initial_controllers)
        return _Beginning(voters, levels, _first_users(users))
    except ValueError as error:
        raise storage.FormatError(str(error)) from error


def _first_users(texts: Iterable[str]) -> list[UserScramCredentialRecord]:

    providers = config_providers.command_line_providers(os.environ)
    return [
        scram.scram_record(text, lambda value: config_providers.resolve_text(value, providers))
        for text in texts
    ]


def _of_release(release: str | None) -> list[str]:
    return [] if release is None else [f"metadata.version={release}"]


def _feature_levels(features: list[str]) -> dict[str, int]:

    found: dict[str, int] = {}
    for text in features:
        name, level = versions.feature_level(text)
        if name in found:
            raise ValueError(f"{name} is chosen twice")
        found[name] = level
    return found


def _first_voters(
    config: server.ServerConfig, standalone: bool, listed: str | None
) -> VoterSet | None:

    if standalone:
        return initial_voters.standalone_voter(config, meta_properties.new_directory_id())
    if listed is not None:
        return initial_voters.parse_initial_voters(listed, config["controller.listener.names"][0])
    return None


def storage_info(*, config: ConfigFile, override: Overrides = None) -> int:
    """Shows the cluster id, node id and directory id of each log directory of a node, and problems with them.

    Exit code 1 if there is a problem.

    Args:
        config: The properties file of the node.
    """
    found = storage.inspect_directories(node_config(config, override))
    for path, identity in found.identities.items():
        directory_id = primitives.uuid_to_text(identity.directory_id)
        put(
            f"{path}: cluster.id={identity.cluster_id} node.id={identity.node_id} directory.id={directory_id}"
        )
    if found.voters is not None:
        put(f"kraft.version={found.kraft_version} voters={found.voters}")
    for problem in found.problems:
        say(f"problem: {problem}")
    return Exit.NO if found.problems else Exit.OK
