"""The addresses of brokers as clients of a proxy see them: a port of the proxy for each broker.

Responses that name brokers are rewritten: Metadata, FindCoordinator, DescribeCluster, and the hints of new leaders in
Produce, Fetch, ShareFetch and ShareAcknowledge. A broker is known by its id, so it keeps its port if its address
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from trimaran.wire.identity import Address, BrokerId
from trimaran.wire.messages.registry import RESPONSES, ApiKey
from trimaran.wire.schema import Message

# The brokers of a cluster behind one proxy: each one takes a port.
BROKERS_MAX = 1000
# The first versions with hints of new leaders (KIP-951), which are `node_endpoints`.
_HINTED = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16, ApiKey.SHARE_FETCH: 0, ApiKey.SHARE_ACKNOWLEDGE: 0}
# Arrays of brokers, and the field of a broker's id in them.
_ARRAYS = {
    ApiKey.METADATA: ("brokers", "node_id"),
    ApiKey.FIND_COORDINATOR: ("coordinators", "node_id"),
    ApiKey.DESCRIBE_CLUSTER: ("brokers", "broker_id"),
    **dict.fromkeys(_HINTED, ("node_endpoints", "node_id")),
}
# DescribeCluster lists controllers instead if the request wants this type; clients of the proxy do not connect to
# those.
_CONTROLLERS = 2


@dataclass(slots=True)
class AddressRewriter:
    """Rewrites addresses. `open_port` listens for a broker that was not known, and returns the
    address for clients. `upstream` has the newest address of each broker.
    """

    open_port: Callable[[BrokerId], Address]
    upstream: dict[BrokerId, Address] = field(default_factory=dict)
    _local: dict[BrokerId, Address] = field(default_factory=dict)

    def wants(self, api: int, version: int) -> bool:
        """Whether responses of this version name brokers."""
        if api not in _ARRAYS or version not in RESPONSES[api].VERSIONS:
            return False
        return version >= _HINTED.get(ApiKey(api), 0)

    def rewrite(self, response: Message) -> bool:
        """Replaces the addresses of brokers; returns whether there were any."""
        found = False
        for broker, id_field in self._brokers(response):
            node_id = BrokerId(getattr(broker, id_field))
            if node_id >= 0 and broker.host:
                broker.host, broker.port = self._seen(node_id, Address(broker.host, broker.port))
                found = True
        return found

    def _brokers(self, response: Any) -> Iterator[tuple[Any, str]]:
        array, id_field = _ARRAYS[response.KEY]
        if getattr(response, "endpoint_type", 0) == _CONTROLLERS:
            return
        for broker in getattr(response, array) or ():
            yield broker, id_field
        if response.KEY == ApiKey.FIND_COORDINATOR:
            yield response, id_field

    def _seen(self, node_id: BrokerId, address: Address) -> Address:
        local = self._local.get(node_id)
        if local is None:
            if len(self._local) >= BROKERS_MAX:
                return address
            local = self._local[node_id] = self.open_port(node_id)
        if address not in self._local.values():  # a proxy must not become its own upstream
            self.upstream[node_id] = address
        return local
