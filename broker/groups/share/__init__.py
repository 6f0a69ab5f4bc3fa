"""Share groups (KIP-932): members share partitions, and the coordinator initializes the state of each. No I/O."""
