"""Keys of the windows over which the use of quotas is measured.

Source: Kafka's `QuotaConfig`.
"""

from __future__ import annotations

from trimaran.node.config.key_rows import rows

QUOTA_WINDOWS = rows(
    """
controller.quota.window.num | int 1.. | 11 | low
    Samples over which changes of topics are measured.
controller.quota.window.size.seconds | int 1.. | 1 | low
    Length of each of these samples.
quota.window.num | int 1.. | 11 | low
    Samples over which the traffic of clients is measured.
quota.window.size.seconds | int 1.. | 1 | low
    Length of each of these samples.
alter.log.dirs.replication.quota.window.num | int 1.. | 11 | low
    Samples over which the copying between log directories is measured.
alter.log.dirs.replication.quota.window.size.seconds | int 1.. | 1 | low
    Length of each of these samples.
replication.quota.window.num | int 1.. | 11 | low
    Samples over which replication is measured.
replication.quota.window.size.seconds | int 1.. | 1 | low
    Length of each of these samples.
"""
)
