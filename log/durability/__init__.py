"""Durability: when a log is synced (`group_commit.py`, read it first), which files must be synced (`flush.py`), by the
kernel or by threads (`syncing.py`), and the failure of a log directory (`health.py`).
"""
