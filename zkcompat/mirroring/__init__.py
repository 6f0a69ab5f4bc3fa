"""The mirror at work: one task leads, others stand by; what it writes, verifies, sweeps and tells."""
