"""The Raft core without I/O (KIP-595, KIP-996)."""
