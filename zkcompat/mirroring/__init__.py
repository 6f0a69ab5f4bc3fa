"""The running mirror: leadership and standby, writes, verification, sweeps and reports."""
