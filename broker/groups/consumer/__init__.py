"""Groups of the consumer protocol (KIP-848): the coordinator assigns partitions, members reconcile one by one.
No I/O.
"""
