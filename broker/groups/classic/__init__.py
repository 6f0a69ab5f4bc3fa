"""Groups of the classic protocol: members elect a leader, which computes the assignment (KIP-62, KIP-345)."""
