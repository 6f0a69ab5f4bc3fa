"""Bounds of the elements of a request: how large it may be, and from which size on it is decoded in a thread.

Compiled decoders let others have their turn every few thousand elements; generated writers are plain Python.
"""

# Frames above it are decoded in a thread: below it ten thousand elements take some 30 ms at the worst.
HEAVY_BYTES = 16 << 10
# The bound of Produce, as its bytes are records and are not looked into: a handler that allows no more elements has
# requests decoded at once, in 3 ms, and refused in 30.
LIGHT_ELEMENTS_MAX = 12_000
# For requests about a quorum, or the nodes of a cluster, or with names of what there are few kinds of: dozens. Decoded
# at once, too.
FEW_ELEMENTS_MAX = 1000
# For requests about users, quotas, ACLs and members of a group, of which there are some hundred: 30 ms.
MANY_ELEMENTS_MAX = 10_000
# For changes of metadata, of which one may write 10,000 records (Kafka's MAX_RECORDS_PER_USER_OP): as many partitions
# with three replicas each, by hand.
DECISION_ELEMENTS_MAX = 60_000
# For changes of configs: as many records, each of another resource.
CONFIGS_ELEMENTS_MAX = 30_000
# For what may name every partition of a broker: 50,000, each with a topic of its own. Its handler pauses
# between them; but the garbage collector walks over all of it, and over the response, at once: 40 ms.
PARTITIONS_ELEMENTS_MAX = 160_000
# For a leader that loses a follower of all its partitions: 50,000, each with an ISR.
ISRS_ELEMENTS_MAX = 300_000
# A request of more elements is taken out of the collector's sight, which would walk over it again and again, 10 ms and
# more each time: messages have no cycles, and are freed by counting references all the same. Others' cyclic garbage of
# that moment is never freed: a little, and few requests are so large.
FROZEN_ELEMENTS_MIN = 50_000
