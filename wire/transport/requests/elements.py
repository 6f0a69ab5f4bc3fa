"""Bounds of the number of elements of a request: the maximum, and the threshold above which it is decoded in a thread.

Compiled decoders let other threads run every few thousand elements; generated writers are plain Python.
"""

# Larger frames are decoded in a thread; ten thousand elements take at most about 30 ms.
HEAVY_BYTES = 16 << 10
# The bound of Produce, in which most bytes are records that are not parsed: if a handler allows no more elements, its
# requests are decoded on the loop, in 3 ms, and refused in 30 ms.
LIGHT_ELEMENTS_MAX = 12_000
# For requests with dozens of elements: about a quorum, the nodes of a cluster, or items of a few kinds. They are also
# decoded on the loop.
FEW_ELEMENTS_MAX = 1000
# For requests with hundreds of elements: users, quotas, ACLs and members of a group; 30 ms.
MANY_ELEMENTS_MAX = 10_000
# For changes of metadata: a request may write 10,000 records (Kafka's MAX_RECORDS_PER_USER_OP), and therefore name the
# same number of partitions, with three replicas each.
DECISION_ELEMENTS_MAX = 60_000
# For changes of configs: the same number of records, each for a different resource.
CONFIGS_ELEMENTS_MAX = 30_000
# For requests that may name every partition of a broker: 50,000, each of a different topic. Their handlers pause
# between partitions, but the garbage collector scans the whole request and response in one step: 40 ms.
PARTITIONS_ELEMENTS_MAX = 160_000
# For a leader that removes a follower from the ISRs of all its partitions: 50,000, each with an ISR.
ISRS_ELEMENTS_MAX = 300_000
# Larger requests are hidden from the garbage collector (`gc.freeze`), which would scan them repeatedly, for 10 ms or
# more each time: messages have no cycles, and reference counting still frees them. Other cyclic garbage of that moment
# is never freed; there is little of it, and few requests are this large.
FROZEN_ELEMENTS_MIN = 50_000
