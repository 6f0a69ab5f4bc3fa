"""The assignors of the server, by the names that clients and `group.consumer.assignors` say.

Source: Kafka's `UniformAssignor`, `RangeAssignor` (KIP-848). As Kafka 4.3's, neither looks at racks.
"""

from __future__ import annotations

from trimaran.broker.groups.consumer.assignors.model import Assignor
from trimaran.broker.groups.consumer.assignors.range import assign_ranges
from trimaran.broker.groups.consumer.assignors.uniform import assign_uniformly

UNIFORM = "uniform"
RANGE = "range"

ASSIGNORS: dict[str, Assignor] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}
