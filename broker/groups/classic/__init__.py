"""Groups of the classic protocol: members elect a leader, which assigns (KIP-62, KIP-345)."""
