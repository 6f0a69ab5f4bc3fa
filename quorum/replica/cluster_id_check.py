"""Is this directory of the cluster that its node talks to?"""

from __future__ import annotations

from trimaran.node.runtime.errors import WrongCluster
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import Identity, Peer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address


class ClusterIdCheck:
    """A directory of another cluster ends the process, if a majority says so before any node has accepted us.

    One node alone may itself be of another cluster.
    """

    __slots__ = ("_addresses", "_identity")

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._addresses: set[Address] | None = set()

    def note(self, peer: Peer, response: core.AnyResponse, voter_count: int) -> None:
        """Notes a response; raises WrongCluster, see above."""
        if self._addresses is None:
            return
        if response.error != ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._addresses = None
            return
        self._addresses.add(Address(peer.host, peer.port))
        if 2 * len(self._addresses) > max(1, voter_count or len(self._identity.bootstrap)):
            listed = ", ".join(f"{host}:{port}" for host, port in sorted(self._addresses))
            raise WrongCluster(
                f"this directory is of cluster {self._identity.cluster_id}, {listed} of another"
            )
