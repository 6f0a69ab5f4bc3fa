"""Durability: which files must be synced (`flush.py`), by the kernel or by threads (`syncing.py`), when
(`group_commit.py`), and the failure of a log directory (`health.py`).
"""
