"""The running mirror: one task leads, others are on standby; its writes, verification, sweeps and reports."""
