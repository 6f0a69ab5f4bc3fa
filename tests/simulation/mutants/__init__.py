"""Planted bugs: some seed must find each of them, otherwise the simulation would be useless. A mutant is a context
manager that breaks the core or the driver. Many are real bugs, with numbers of Kafka's, etcd's and Redpanda's trackers.
"""

from tests.simulation.mutants.changes import CHANGES, DRIVER, LOGS
from tests.simulation.mutants.cluster import CLUSTER
from tests.simulation.mutants.disks import DISKS
from tests.simulation.mutants.elections import ELECTIONS
from tests.simulation.mutants.replication import REPLICATION

# Only few seeds find these bugs, so they are hunted last.
SLOW = (
    "damage is a torn end",
    "damage is forgotten",
    "damaged snapshot is taken",
    "keeps diverged records",
    "looks for no leader",
    "lost snapshot is forgotten",
    "never resigns",
    "snapshot loses configs",
    "snapshots without voters",
    "observers keep a leader in office",
    "truncated voters count",
    "vote file without checksum",
    "voted-out leader counts itself",
    "voted-out leader goes at once",
    "votes in past epochs",
    "votes though damaged",
)

MUTANTS = (*REPLICATION, *ELECTIONS, *LOGS, *CHANGES, *DRIVER, *DISKS, *CLUSTER)
