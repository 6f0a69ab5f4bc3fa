"""The APIs that brokers forward to the active controller; each handler here also declares its API for brokers.

A broker forwards the request (`broker/handlers/forwarded.py`) unless it has its own handler. The request arrives in an
Envelope, or from a client that is connected to a controller directly.
"""

from __future__ import annotations

from trimaran.quorum.controller.handlers.alter_client_quotas import alter_client_quotas
from trimaran.quorum.controller.handlers.alter_configs import alter_configs
from trimaran.quorum.controller.handlers.alter_partition_reassignments import (
    alter_partition_reassignments,
)
from trimaran.quorum.controller.handlers.alter_user_scram_credentials import (
    alter_user_scram_credentials,
)
from trimaran.quorum.controller.handlers.create_acls import create_acls
from trimaran.quorum.controller.handlers.create_delegation_token import create_delegation_token
from trimaran.quorum.controller.handlers.create_partitions import create_partitions
from trimaran.quorum.controller.handlers.create_topics import create_topics
from trimaran.quorum.controller.handlers.delete_acls import delete_acls
from trimaran.quorum.controller.handlers.delete_topics import delete_topics
from trimaran.quorum.controller.handlers.elect_leaders import elect_leaders
from trimaran.quorum.controller.handlers.expire_delegation_token import expire_delegation_token
from trimaran.quorum.controller.handlers.incremental_alter_configs import incremental_alter_configs
from trimaran.quorum.controller.handlers.list_partition_reassignments import (
    list_partition_reassignments,
)
from trimaran.quorum.controller.handlers.renew_delegation_token import renew_delegation_token
from trimaran.quorum.controller.handlers.unregister_broker import unregister_broker
from trimaran.quorum.controller.handlers.unregister_controller import unregister_controller
from trimaran.quorum.controller.handlers.update_features import update_features
from trimaran.quorum.handlers.add_raft_voter import add_raft_voter
from trimaran.quorum.handlers.describe_quorum import describe_quorum
from trimaran.quorum.handlers.remove_raft_voter import remove_raft_voter

FORWARDED_HANDLERS = (
    alter_configs,
    create_topics,
    delete_topics,
    create_partitions,
    incremental_alter_configs,
    alter_partition_reassignments,
    list_partition_reassignments,
    elect_leaders,
    unregister_broker,
    unregister_controller,
    describe_quorum,
    add_raft_voter,
    remove_raft_voter,
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    expire_delegation_token,
    renew_delegation_token,
    update_features,
)
